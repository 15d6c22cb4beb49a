// drivetrain.replay._native: a replay table and its writers, for NumPy arrays.
//
// Converts, releases the GIL, raises. Arrays that do not fit are turned down by a return value, and
// Python (replay/checks.py) says why: the common path pays nothing for good messages.
#include "bind/table.hpp"
#include "bind/writer.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace drivetrain;
using drivetrain::bind::read_config;
using drivetrain::bind::Table;
using drivetrain::bind::Writer;

namespace {

int import_numpy() {
  import_array1(-1);
  return 0;
}

}  // namespace

NB_MODULE(_native, m) {
  if (import_numpy() != 0) nb::raise_python_error();
  m.attr("ROW_HEADER_NBYTES") = sizeof(RowHeader);
  m.attr("EXPORT_ROWS") = kMaxBatch;
  m.def("simd_level", [] { return simd_name(best_simd_level()); });
  m.def("links_nbytes", [](std::uint64_t num_refs) { return links_nbytes(num_refs); });
  m.def("table_nbytes", [](nb::dict config) { return table_nbytes(read_config(config)); });
  nb::class_<Table>(m, "Table")
      .def(nb::init<nb::handle, nb::dict, nb::list, bool>(), "payload"_a, "config"_a, "fields"_a,
           "initialize"_a)
      .def("close", &Table::close)
      .def_prop_ro("closed", &Table::closed)
      .def_prop_ro("num_frames", &Table::num_frames)
      .def("sample", &Table::sample, "batch_size"_a, "beta"_a, "stratified"_a, "num_batches"_a,
           "out"_a.none())
      .def("update", &Table::update, "keys"_a.none(), "priorities"_a.none())
      .def("stats", &Table::stats)
      .def("size", &Table::size)
      .def("is_consistent", &Table::is_consistent)
      .def("export_rows", &Table::export_rows, "first"_a, "rows"_a, "leaves"_a, "generations"_a)
      .def("import_rows", &Table::import_rows, "rows"_a, "leaves"_a,
           "keys"_a.none())
      .def("export_generations", &Table::export_generations, "first"_a, "generations"_a)
      .def("export_frames", &Table::export_frames, "slots"_a, "frames"_a, "generations"_a)
      .def("import_frames", &Table::import_frames, "frames"_a, "keys"_a)
      .def("restore", &Table::restore, "max_priority"_a, "random_block"_a, "num_inserted"_a);
  nb::class_<Writer>(m, "Writer")
      .def(nb::init<Table&, std::size_t, std::size_t, double, std::size_t>(), nb::keep_alive<1, 2>(),
           "table"_a, "num_envs"_a, "num_step"_a, "gamma"_a, "period"_a)
      .def("add", &Writer::add, "step"_a);
}
