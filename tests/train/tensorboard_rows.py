"""Reads TensorBoard's files as it does: a session that starts at a step takes the place of what is after."""

import struct

from tensorboardX.proto import event_pb2


def scalars(folder, tag):
    """{step: value} of a tag, over all files of a folder in the order of their names."""
    values = {}
    for path in sorted(folder.iterdir()):
        for event in events(path.read_bytes()):
            if event.HasField("session_log") and event.session_log.status == event_pb2.SessionLog.START:
                values = {step: value for step, value in values.items() if step < event.step}
            for value in event.summary.value:
                if value.tag == tag:
                    values[event.step] = value.simple_value
    return values


def events(data):
    """The events of a file: length, its checksum, event, its checksum."""
    position = 0
    while position + 12 <= len(data):
        (nbytes,) = struct.unpack_from("<Q", data, position)
        event = event_pb2.Event()
        event.ParseFromString(data[position + 12 : position + 12 + nbytes])
        yield event
        position += nbytes + 16
