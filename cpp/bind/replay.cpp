// drivetrain.replay._native: a replay table and its writers, for NumPy arrays.
//
// Converts, releases the GIL, raises. Arrays that do not fit are turned down by a return value, and
// Python (replay/checks.py) says why: the common path pays nothing for good messages.
#include "bind/queries.hpp"
#include "bind/rewriting.hpp"
#include "bind/row_copy.hpp"
#include "bind/table.hpp"
#include "bind/transfer.hpp"
#include "bind/tree.hpp"
#include "bind/writer.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace drivetrain;
using drivetrain::bind::read_config;
using drivetrain::bind::Table;
using drivetrain::bind::Tree;
using drivetrain::bind::Writer;

namespace {

// Samples that wait in a table may hold whatever somebody has put into their dicts.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Table>(self)->traverse(visit, arg) : 0;
}
int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Table>(self)->let_go();
  return 0;
}
PyType_Slot table_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {0, nullptr},
};

}  // namespace

NB_MODULE(_native, m) {
  drivetrain::bind::import_numpy();
  m.attr("ROW_HEADER_NBYTES") = sizeof(RowHeader);
  m.attr("EXPORT_ROWS") = kMaxBatch;
  m.attr("MAX_THREADS") = ThreadPool::kMostThreads;
  m.attr("LOCK_OFFSET") = offsetof(TableHeader, mutex);  // for tests that break it
  m.def(
      "simd_level",
      [] {
        bind::require_known_simd();
        return simd_name(best_simd_level());
      },
      "The instructions that the replay computes with on this CPU: \"avx512\", \"avx2\", \"neon\" or \"baseline\".\n\n"
      "The environment variable DRIVETRAIN_SIMD asks for less than the best.\n\n"
      "Raises:\n"
      "    InvalidInput: DRIVETRAIN_SIMD is none of these.");
  m.def("links_nbytes", [](std::uint64_t num_refs) { return links_nbytes(num_refs); });
  m.def("table_nbytes", [](nb::dict config) { return table_nbytes(read_config(config)); });
  m.def("table_regions", [](nb::dict values) {
    const TableConfig config = read_config(values);
    Region regions[kNumRegions];
    list_regions(config, regions);
    nb::list sizes;
    for (const Region& region : regions) sizes.append(nb::make_tuple(region.name, region.nbytes));
    return sizes;
  });
  nb::class_<Table>(m, "Table", nb::type_slots(table_slots))
      .def(nb::init<nb::handle, nb::dict, nb::list, nb::object, bool, bool>(), "payload"_a, "config"_a,
           "fields"_a, "sample_type"_a, "initialize"_a, "is_shared"_a)
      .def("close", &Table::close)
      .def_prop_ro("closed", &Table::closed)
      .def("sample", &Table::sample, "batch_size"_a.none(), "beta"_a.none(), "mode"_a.none(),
           "num_batches"_a.none(), "out"_a.none(), "num_threads"_a.none(), "join_stacks"_a)
      .def_prop_ro("num_frames", &Table::num_frames)
      .def("update", &Table::update, "keys"_a.none(), "priorities"_a.none())
      .def("read", &Table::read, "keys"_a, "out"_a)
      .def("rewrite_rows", &bind::rewrite_rows, "keys"_a, "places"_a, "arrays"_a)
      .def("leaf_stats", &bind::leaf_stats)
      .def("idle_frames", &bind::idle_frames)
      .def("all_keys", &bind::all_keys)
      .def("read_priorities", &bind::read_priorities, "keys"_a, "priorities"_a)
      .def("alpha", &Table::alpha)
      .def("set_alpha", &Table::set_alpha, "alpha"_a, "rescale"_a)
      .def("clear", &Table::clear)
      .def("stats", &Table::stats)
      .def("idle_nbytes", &Table::idle_nbytes)
      .def("size", &Table::size)
      .def("is_consistent", &Table::is_consistent)
      .def("export_rows", &bind::export_rows, "first"_a, "alpha"_a, "rows"_a, "leaves"_a, "generations"_a)
      .def("export_leaves", &bind::export_leaves, "first"_a, "alpha"_a, "leaves"_a, "generations"_a)
      .def("import_rows", &bind::import_rows, "rows"_a, "leaves"_a,
           "keys"_a.none())
      .def("export_generations", &bind::export_generations, "first"_a, "generations"_a)
      .def("export_frame_generations", &bind::export_frame_generations, "slots"_a,
           "generations"_a)
      .def("export_frames", &bind::export_frames, "slots"_a, "frames"_a, "generations"_a)
      .def("import_frames", &bind::import_frames, "frames"_a, "keys"_a)
      .def("restore_unit", &bind::restore_unit, "exponent"_a)
      .def("restore", &bind::restore, "max_priority"_a, "random_block"_a, "num_inserted"_a, "next_slot"_a);
  nb::class_<Writer>(m, "Writer", nb::is_weak_referenceable())
      .def(nb::init<Table&, std::size_t, std::size_t, double, std::size_t, bool>(), nb::keep_alive<1, 2>(),
           "table"_a, "num_envs"_a, "num_step"_a, "gamma"_a, "period"_a, "compares"_a)
      .def("add", nb::overload_cast<nb::dict>(&Writer::add), "step"_a)
      .def("add_some", &Writer::add_some, "where"_a, "step"_a)
      .def("drop_windows", &Writer::drop_windows, "where"_a)
      .def("close", &Writer::close)
      .def("keyword_add", [](nb::handle self, nb::handle slowly, const nb::str& doc) {
        return drivetrain::bind::keyword_add(self, slowly, doc);
      }, "slowly"_a, "doc"_a);
  nb::class_<Tree>(m, "Tree")
      .def(nb::init<std::uint64_t>(), "capacity"_a)
      .def_prop_ro("total", &Tree::total)
      .def_prop_ro("total_priority", &Tree::total_priority)
      .def("update", &Tree::update, "indices"_a, "priorities"_a)
      .def("find", &Tree::find, "targets"_a, "out"_a);
  m.def("copy_rows", &drivetrain::bind::copy_rows, "rows"_a, "stride"_a, "nbytes"_a, "indices"_a,
        "out"_a);
}
