// drivetrain.replay._native: a replay table and its writers, for NumPy arrays.
//
// Converts, releases the GIL, raises. Arrays that do not fit are turned down by a return value, and
// Python (replay/checks.py) says why: the common path pays nothing for good messages.
#include "bind/row_copy.hpp"
#include "bind/table.hpp"
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
  m.def("table_nbytes", [](nb::dict config) { return table_nbytes(read_config(config)); });
  nb::class_<Table>(m, "Table")
      .def(nb::init<nb::handle, nb::dict, nb::list, bool>(), "payload"_a, "config"_a, "fields"_a,
           "initialize"_a)
      .def("close", &Table::close)
      .def_prop_ro("closed", &Table::closed)
      .def("sample", &Table::sample, "batch_size"_a, "beta"_a, "stratified"_a, "num_batches"_a,
           "out"_a.none())
      .def("update", &Table::update, "keys"_a.none(), "priorities"_a.none())
      .def("stats", &Table::stats)
      .def("size", &Table::size)
      .def("is_consistent", &Table::is_consistent)
      .def("export_rows", &Table::export_rows, "first"_a, "rows"_a, "leaves"_a, "generations"_a)
      .def("import_rows", &Table::import_rows, "rows"_a, "leaves"_a)
      .def("restore", &Table::restore, "max_priority"_a, "random_block"_a, "num_inserted"_a);
  nb::class_<Writer>(m, "Writer")
      .def(nb::init<Table&, std::size_t, std::size_t, double>(), nb::keep_alive<1, 2>(), "table"_a,
           "num_envs"_a, "num_step"_a, "gamma"_a)
      .def("add", &Writer::add, "step"_a);
  nb::class_<Tree>(m, "Tree")
      .def(nb::init<std::uint64_t>(), "capacity"_a)
      .def_prop_ro("total", &Tree::total)
      .def_prop_ro("total_priority", &Tree::total_priority)
      .def("update", &Tree::update, "indices"_a, "priorities"_a)
      .def("find", &Tree::find, "targets"_a, "out"_a);
  m.def("copy_rows", &drivetrain::bind::copy_rows, "rows"_a, "stride"_a, "nbytes"_a, "indices"_a,
        "out"_a);
}
