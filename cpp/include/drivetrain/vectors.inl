// Vectors of float32 for one instruction set; included once for each (no guard), in a namespace that says
//
//   DRIVETRAIN_KERNEL  the target attribute of every function here
//   kLanes             float32 numbers in a vector

typedef float Vector __attribute__((vector_size(4 * kLanes), aligned(4)));

DRIVETRAIN_KERNEL inline Vector load(const float* from) noexcept {
  return *reinterpret_cast<const Vector*>(from);
}
DRIVETRAIN_KERNEL inline void store(float* to, Vector vector) noexcept {
  *reinterpret_cast<Vector*>(to) = vector;
}
