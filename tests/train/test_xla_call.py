"""Our declaration of what XLA hands to a custom call, against the header of the jaxlib that is installed."""

from pathlib import Path

import pytest

pytest.importorskip("jax", reason="needs the train extra")

import jax

from drivetrain.core.compilers import find_cxx, refusal

HEADERS = Path(__file__).parents[2] / "cpp" / "include"
THEIRS = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
EXTENSION = next(f"XLA_FFI_{name}" for name in ("InternalExtension", "Extension_Base") if name in THEIRS.read_text())
FIELDS = {  # ours: (theirs, {our field: their field})
    "Extension": (EXTENSION, {"type": "type", "next": "next"}),
    "ApiVersion": ("XLA_FFI_Api_Version", {"major_version": "major_version", "minor_version": "minor_version"}),
    "Metadata": (
        "XLA_FFI_Metadata",
        {"api_version": "api_version", "traits": "traits", "state_type": "state_type_id"},
    ),
    "MetadataExtension": ("XLA_FFI_Metadata_Extension", {"base": "extension_base", "metadata": "metadata"}),
    "Buffer": ("XLA_FFI_Buffer", {"dtype": "dtype", "data": "data", "rank": "rank", "dims": "dims"}),
    "ErrorArgs": ("XLA_FFI_Error_Create_Args", {"message": "message", "code": "errc"}),
    "Api": ("XLA_FFI_Api", {"api_version": "api_version", "error_create": "XLA_FFI_Error_Create"}),
    "Name": ("XLA_FFI_ByteSpan", {"text": "ptr", "length": "len"}),
    "Scalar": ("XLA_FFI_Scalar", {"dtype": "dtype", "value": "value"}),
    "Attributes": ("XLA_FFI_Attrs", {"size": "size", "types": "types", "names": "names", "values": "attrs"}),
    "CallFrame": (
        "XLA_FFI_CallFrame",
        {"api": "api", "stage": "stage", "args": "args", "rets": "rets", "attributes": "attrs"},
    ),
}
VALUES = {
    "kMetadataExtension": "XLA_FFI_Extension_Metadata",
    "kUint8": "XLA_FFI_DataType_U8",
    "kInt64": "XLA_FFI_DataType_S64",
    "kScalar": "XLA_FFI_AttrType_SCALAR",
    "kFloat32": "XLA_FFI_DataType_F32",
    "kInvalidArgument": "XLA_FFI_Error_Code_INVALID_ARGUMENT",
}


def test_every_field_lies_where_the_header_of_jaxlib_has_it():
    lines = ['#include "drivetrain/xla_call.hpp"', '#include "xla/ffi/api/c_api.h"', "namespace x = drivetrain::xla;"]
    for ours, (theirs, fields) in FIELDS.items():
        for field, their_field in fields.items():
            lines.append(f'static_assert(offsetof(x::{ours}, {field}) == offsetof({theirs}, {their_field}), "{ours}");')
    for kind, entries in (("Args", "args"), ("Rets", "rets")):
        for field, their_field in {"size": "size", "types": "types", "buffers": entries}.items():
            lines.append(f"static_assert(offsetof(x::Buffers, {field}) == offsetof(XLA_FFI_{kind}, {their_field}));")
        lines.append(f"static_assert(sizeof(x::Buffers) == sizeof(XLA_FFI_{kind}));")
    lines.append("static_assert(sizeof(x::Metadata) == sizeof(XLA_FFI_Metadata));")
    lines += [f"static_assert(x::{ours} == {theirs});" for ours, theirs in VALUES.items()]
    lines.append("static_assert(XLA_FFI_API_MAJOR == 0);")
    compiler = find_cxx()
    if compiler is None:
        pytest.skip("no C++ compiler")
    includes = [f"-I{HEADERS}", f"-I{jax.ffi.include_dir()}"]
    command = [*compiler, "-x", "c++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", *includes, "-"]
    assert refusal(command, "\n".join(lines)) is None
