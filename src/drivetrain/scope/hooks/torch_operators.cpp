// Calls of PyTorch's operators, told to the recorder: a callback of the dispatcher, which is public in C++ alone.
//
// Compiled where it is used, against the PyTorch that is there (torch_operators.py). It links to PyTorch and not to
// the recorder, whose two functions it is given.
#include <ATen/record_function.h>

#include <memory>

namespace {
void (*begin)() = nullptr;
void (*end)() = nullptr;
}  // namespace

/// For all threads, until the process ends. To be called once.
extern "C" void drivetrain_record_operators(void (*begin_operator)(), void (*end_operator)()) {
  begin = begin_operator;
  end = end_operator;
  const auto entered = [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
    begin();
    return nullptr;
  };
  const auto left = [](const at::RecordFunction&, at::ObserverContext*) { end(); };
  at::addGlobalCallback(at::RecordFunctionCallback(entered, left).scopes({at::RecordScope::FUNCTION}));
}
