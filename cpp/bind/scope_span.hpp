// Span: a site as a context manager. Stateless, so one object serves all threads, nested and recursive.
//
// Written against Python's C API: entering and leaving must cost about as much as doing nothing does.
#pragma once

#include <nanobind/nanobind.h>

#include "drivetrain/event_log_thread.hpp"

namespace drivetrain::bind {

struct Span {
  PyObject_HEAD
  SiteUse use;
};

/// Span(site, ends_step=-1, collapses=False, waits=False, is_traced=False); ends_step is a StepKind, or -1.
inline int span_init(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"site", "ends_step", "collapses", "waits", "is_traced", nullptr};
  unsigned int site;
  int ends_step = -1, collapses = 0, waits = 0, is_traced = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "I|ippp", const_cast<char**>(names), &site, &ends_step, &collapses,
                                   &waits, &is_traced))
    return -1;
  SiteUse& use = reinterpret_cast<Span*>(self)->use;
  use = SiteUse{.site = site, .instrument = Instrument::kAnnotation};
  use.ends_step = ends_step >= 0;
  if (use.ends_step) use.step = static_cast<StepKind>(ends_step);
  use.collapses = collapses != 0;
  use.waits = waits != 0;
  use.is_traced = is_traced != 0;
  return 0;
}

inline PyObject* span_enter(PyObject* self, PyObject*) {
  thread_log.begin(reinterpret_cast<Span*>(self)->use);
  return Py_NewRef(self);
}
inline PyObject* span_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  const SiteUse& use = reinterpret_cast<Span*>(self)->use;
  thread_log.end(use.site, use.instrument);
  Py_RETURN_NONE;
}
inline PyObject* span_site(PyObject* self, void*) {
  return PyLong_FromUnsignedLong(reinterpret_cast<Span*>(self)->use.site);
}
inline void span_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

/// The yardstick: what a context manager costs that does nothing.
inline PyObject* nothing_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
inline PyObject* nothing_exit(PyObject*, PyObject* const*, Py_ssize_t) { Py_RETURN_NONE; }

inline PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

inline PyObject* make_span_type() {
  static PyMethodDef methods[] = {{"__enter__", span_enter, METH_NOARGS, nullptr},
                                  {"__exit__", fast(span_exit), METH_FASTCALL, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {{"site", span_site, nullptr, nullptr, nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {Py_tp_init, reinterpret_cast<void*>(span_init)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(span_dealloc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"drivetrain.scope._native.Span", sizeof(Span), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return PyType_FromSpec(&spec);
}

inline PyObject* make_nothing_type() {
  static PyMethodDef methods[] = {{"__enter__", nothing_enter, METH_NOARGS, nullptr},
                                  {"__exit__", fast(nothing_exit), METH_FASTCALL, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods},
                                {Py_tp_dealloc, reinterpret_cast<void*>(span_dealloc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"drivetrain.scope._native.Nothing", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromSpec(&spec);
}

}  // namespace drivetrain::bind
