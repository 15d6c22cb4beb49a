// Wrapped: a callable that is recorded as a site and otherwise passes for what it wraps.
//
// Put in the place of a method of a class, it binds like a function; Unbound, which is otherwise the same, does not, as
// builtins do not. All attributes are those of the wrapped callable, its class included, so that inspect,
// functools.wraps and cloudpickle by value (which takes a function apart, and so passes on one that is not recorded, but
// for what the program itself has decorated: see scope/hooks/cloudpickle.py) see no difference; how it is copied and
// pickled is said in scope/spans.py. A hook may ask to be told of each call, before it begins, with its arguments if it
// wants them: from here, so that no traceback shows that.
#pragma once

#include <structmember.h>

#include "bind/scope_span.hpp"

namespace drivetrain::bind {

struct Wrapped {
  PyObject_HEAD
  PyObject* function;
  PyObject* span;  // of `use`
  PyObject* tell;  // called before each call, of what is traced while it is; null: nobody
  SiteUse use;
  bool tells_arguments;  // or tell is called without any
  vectorcallfunc call;
  PyObject* weak_references;  // as functions have; JAX keeps what it traced by them
};

inline Wrapped* as_wrapped(PyObject* object) { return reinterpret_cast<Wrapped*>(object); }

/// None where the garbage collector has emptied it, before the last that asks for it.
inline PyObject* function_of(PyObject* object) {
  PyObject* function = as_wrapped(object)->function;
  return function != nullptr ? function : Py_None;
}

inline PyObject* wrapped_call(PyObject* self, PyObject* const* args, std::size_t count, PyObject* keywords) {
  Wrapped* wrapped = as_wrapped(self);
  if (wrapped->tell != nullptr && (!wrapped->use.is_traced || thread_log.is_tracing())) {
    PyObject* said = wrapped->tells_arguments ? PyObject_Vectorcall(wrapped->tell, args, count, keywords)
                                              : PyObject_CallNoArgs(wrapped->tell);
    if (said == nullptr && !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;  // Ctrl-C came meanwhile
    if (said == nullptr) PyErr_WriteUnraisable(wrapped->tell);                        // the program must run on
    Py_XDECREF(said);
  }
  thread_log.begin(wrapped->use);
  PyObject* result = PyObject_Vectorcall(function_of(self), args, count, keywords);
  thread_log.end(wrapped->use.site);
  return result;
}

/// Wrapped(function, span, tell=None, tells_arguments=False)
inline int wrapped_init(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"function", "span", "tell", "tells_arguments", nullptr};
  PyObject *function, *span, *tell = Py_None, *span_type = nullptr;
  int tells_arguments = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|Op", const_cast<char**>(names), &function, &span, &tell,
                                   &tells_arguments))
    return -1;
  for (PyTypeObject* type = Py_TYPE(span); type != nullptr; type = type->tp_base)
    if (type->tp_init == span_init || type->tp_dealloc == span_dealloc) span_type = span;
  if (span_type == nullptr || !PyCallable_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "expected a callable and a Span");
    return -1;
  }
  Wrapped* wrapped = as_wrapped(self);
  Py_XSETREF(wrapped->function, Py_NewRef(function));
  Py_XSETREF(wrapped->span, Py_NewRef(span));
  Py_XSETREF(wrapped->tell, tell == Py_None ? nullptr : Py_NewRef(tell));
  wrapped->tells_arguments = tells_arguments != 0;
  wrapped->use = reinterpret_cast<Span*>(span)->use;
  wrapped->use.instrument = Instrument::kCall;
  wrapped->call = wrapped_call;
  return 0;
}

inline int wrapped_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_wrapped(self)->function);
  Py_VISIT(as_wrapped(self)->span);
  Py_VISIT(as_wrapped(self)->tell);
  return 0;
}
inline int wrapped_clear(PyObject* self) {
  // A function of Python breaks its own cycles, and can be called to the end: by what is deleted together with it.
  PyObject* function = as_wrapped(self)->function;
  if (function != nullptr && !PyFunction_Check(function)) Py_CLEAR(as_wrapped(self)->function);
  Py_CLEAR(as_wrapped(self)->span);
  Py_CLEAR(as_wrapped(self)->tell);
  return 0;
}
inline void wrapped_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_wrapped(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  wrapped_clear(self);
  Py_CLEAR(as_wrapped(self)->function);
  type->tp_free(self);
  Py_DECREF(type);
}

/// As a class attribute it binds to instances, like a function.
inline PyObject* wrapped_get(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

inline PyObject* wrapped_getattro(PyObject* self, PyObject* name) {
  static const char* const own[] = {"__call__", "__get__", "__span__"};
  PyObject* function = function_of(self);
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  if (std::strcmp(text, "__wrapped__") == 0) return Py_NewRef(function);
  for (const char* mine : own)
    if (std::strcmp(text, mine) == 0) return PyObject_GenericGetAttr(self, name);
  return PyObject_GetAttr(function, name);
}
inline int wrapped_setattro(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(function_of(self), name, value);
}
/// As an attribute of the type, too: pydoc asks past an object's own __getattribute__.
inline PyObject* wrapped_doc(PyObject* self, void*) { return PyObject_GetAttrString(function_of(self), "__doc__"); }
inline PyObject* wrapped_repr(PyObject* self) { return PyObject_Repr(function_of(self)); }

/// Unbound, or Wrapped where that is there to derive it from.
inline PyObject* make_wrapped_type(PyObject* unbound) {
  static PyMemberDef members[] = {
      {"__span__", T_OBJECT, offsetof(Wrapped, span), READONLY, nullptr},
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapped, call), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapped, weak_references), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef properties[] = {{"__doc__", wrapped_doc, nullptr, nullptr, nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  PyType_Slot slots[] = {{Py_tp_init, reinterpret_cast<void*>(wrapped_init)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(wrapped_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(wrapped_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(wrapped_clear)},
                         {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_getattro, reinterpret_cast<void*>(wrapped_getattro)},
                         {Py_tp_setattro, reinterpret_cast<void*>(wrapped_setattro)},
                         {Py_tp_repr, reinterpret_cast<void*>(wrapped_repr)},
                         {Py_tp_members, members},
                         {Py_tp_getset, properties},
                         {unbound == nullptr ? 0 : Py_tp_descr_get, reinterpret_cast<void*>(wrapped_get)},
                         {0, nullptr}};
  const unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Spec spec = {"drivetrain.scope._native.Unbound", sizeof(Wrapped), 0, flags | Py_TPFLAGS_BASETYPE, slots};
  if (unbound == nullptr) return PyType_FromSpec(&spec);
  spec.name = "drivetrain.scope._native.Wrapped";
  spec.flags = flags | Py_TPFLAGS_METHOD_DESCRIPTOR;
  return PyType_FromSpecWithBases(&spec, unbound);
}

}  // namespace drivetrain::bind
