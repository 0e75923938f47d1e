// Package a2astore plugs a task store service into A2A servers built with a2a-go: a [Store] goes into
// a2asrv.WithTaskStore, and every replica that has one serves the same tasks.
//
// # What a task keeps
//
// The package converts between the types of a2a-go and the protobuf messages of the service by itself. What it accepts can
// be read back, and is equal to what was written; anything else is refused before it is sent, with an error that wraps
// a2a.ErrInvalidParams and names the place, as in
//
//	artifacts[2].parts[0].data["total"]: 9007199254740993 is not exact as a 64-bit float
//
// Equal leaves room for what protobuf or gob, with which a2a-go copies tasks, cannot tell apart:
//
//   - Nil and empty lists are the same; they are read as nil, but Parts as an empty list, as A2A requires the field. Nil
//     and empty metadata differ.
//   - Timestamps keep the instant to the nanosecond and are read in UTC. They lie in the years 1 to 9999.
//   - Raw(nil) is read as Raw{}. A part without content is read as one.
//   - A status without fields and an absent status are the same.
//   - The states and roles TASK_STATE_UNSPECIFIED and ROLE_UNSPECIFIED are read as "".
//
// Metadata and Data parts hold any JSON value, and are read as nil, bool, float64, string, []any and map[string]any, which
// is what they are when they come over JSON. An agent may also give integers and json.Number (if a float64 has that value),
// types derived from those, slices, arrays, maps with string keys, and pointers to any of these. Inside a value, a nil
// pointer is null; a nil slice or map is an empty one, because gob makes nil of an empty slice. NaN and infinities are kept,
// although JSON cannot show them. Refused are structs, []byte, types that marshal themselves, integers that a float64
// would round, text that is not UTF-8, cycles, and payloads nested deeper than 90 protobuf messages (about 28 JSON objects).
//
// # What an update costs
//
// a2a-go hands the whole task to its store with every event. A [Store] remembers the tasks that it wrote or read last, compares,
// and sends what changed, together with the event: a piece of an artifact goes over the network twice, however long the
// artifact has become. Comparing looks at every message and piece, and reads their texts, unless they are the very strings of
// the update before. Those of a2a-go are not: it copies the task for every update, which takes far longer than to compare it.
// What is certain is decided by the tasks alone: the task at the version that is replaced must be remembered, and the change
// be one that the service can make of it and end up with the very same task. Otherwise the whole task is sent, which is always
// right.
//
// The memory is bounded ([WithMemory]) and holds no task that has ended. It is private: tasks that were passed, or returned,
// are the caller's to change, as it shares only strings. It relies on the service never giving one version of a task to two
// contents. A service that lost its latest writes, because it was restored from a backup, may do that: restart the agents then,
// as they also hold tasks that are not stored any more.
//
// # What later versions of A2A write
//
// States and roles that this version does not know are read as TASK_STATE_<n> and ROLE_<n> and written back as the number.
// Fields that it does not know have no place in the types of a2a-go. The service keeps them, and so does an update that sends
// what changed, in the messages and artifacts that it does not replace, and in the task itself unless the metadata changed.
// An update that sends the whole task replaces the task, and they are gone. Mixed fleets should move all writers of a task to
// the later version together.
package a2astore
