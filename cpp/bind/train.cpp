// drivetrain.train._native: what XLA calls inside a learner's updates, and what an actor's network gives.
#include <nanobind/nanobind.h>

#include "bind/adam.hpp"
#include "bind/convolutions.hpp"
#include "bind/forward.hpp"
#include "bind/joined.hpp"
#include "bind/products.hpp"

namespace nb = nanobind;
namespace bind = drivetrain::bind;

NB_MODULE(_native, m) {
  bind::import_numpy();
  m.def("forward", &bind::forward, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
  m.def("convolutions", &bind::convolutions, nb::arg(), nb::arg(), nb::arg());
  m.def("adam_handler", [] { return bind::handler(bind::adam_step); });
  m.def("joined_handler", [] { return bind::handler(bind::joined); });
  m.def("rectified_handlers", [] {
    return nb::make_tuple(bind::handler(bind::rectified_product), bind::handler(bind::rectified_weight_slopes),
                          bind::handler(bind::rectified_input_slopes));
  });
  m.def("has_tiles", &drivetrain::rounded::has_tiles);
  m.def("rounded_handlers", [] {
    return nb::make_tuple(bind::handler(bind::rounded_product), bind::handler(bind::rounded_weight_slopes),
                          bind::handler(bind::rounded_input_slopes));
  });
  m.def("narrow_handlers", [] {
    return nb::make_tuple(bind::handler(bind::narrow_spread), bind::handler(bind::narrow_outer),
                          bind::handler(bind::narrow_gather));
  });
  m.def("convolution_handlers", &bind::convolution_handlers<bind::InFloat32>);
  m.def("rounded_convolution_handlers", &bind::convolution_handlers<bind::Rounded>);
}
