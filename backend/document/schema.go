package document

// The schema of the payloads, as far as validation needs it: which fields are messages or strings, and which messages may
// occur once only. A test compares it with the generated descriptors.

type kind uint8

const (
	scalar   kind = iota // numbers, enums and bytes: any content is valid
	text                 // must be UTF-8
	single               // a message; two occurrences would be merged, so a second one is refused
	repeated             // a list of messages, or a map
)

type field struct {
	name string
	kind kind
	msg  *message
}

type message struct {
	name   string
	fields [maxField + 1]field // by number; an empty name is an unknown field
	time   bool                // google.protobuf.Timestamp: its range is checked
}

const maxField = 8

var (
	timestampMsg = &message{name: "google.protobuf.Timestamp", time: true}
	structMsg    = &message{name: "google.protobuf.Struct"}
	structEntry  = &message{name: "google.protobuf.Struct.FieldsEntry"}
	valueMsg     = &message{name: "google.protobuf.Value"}
	listMsg      = &message{name: "google.protobuf.ListValue"}

	partMsg           = &message{name: "Part"}
	messageMsg        = &message{name: "Message"}
	artifactMsg       = &message{name: "Artifact"}
	statusMsg         = &message{name: "TaskStatus"}
	taskMsg           = &message{name: "Task"}
	statusUpdateMsg   = &message{name: "TaskStatusUpdateEvent"}
	artifactUpdateMsg = &message{name: "TaskArtifactUpdateEvent"}
	responseMsg       = &message{name: "StreamResponse"}
)

// The field numbers that this package reads.
const (
	taskID        = 1
	taskContextID = 2
	taskStatus    = 3
	taskArtifacts = 4
	taskHistory   = 5

	statusState     = 1
	statusTimestamp = 3

	artifactID    = 1
	artifactParts = 4

	responseTask           = 1
	responseMessage        = 2
	responseStatusUpdate   = 3
	responseArtifactUpdate = 4
)

// The messages refer to each other in circles (a Value holds a Struct that holds Values), so they are filled here.
func init() {
	timestampMsg.fields = [maxField + 1]field{1: {name: "seconds"}, 2: {name: "nanos"}}
	structMsg.fields = [maxField + 1]field{1: {"fields", repeated, structEntry}}
	structEntry.fields = [maxField + 1]field{1: {"key", text, nil}, 2: {"value", single, valueMsg}}
	valueMsg.fields = [maxField + 1]field{
		1: {name: "null_value"}, 2: {name: "number_value"}, 3: {"string_value", text, nil}, 4: {name: "bool_value"},
		5: {"struct_value", single, structMsg}, 6: {"list_value", single, listMsg},
	}
	listMsg.fields = [maxField + 1]field{1: {"values", repeated, valueMsg}}

	partMsg.fields = [maxField + 1]field{
		1: {"text", text, nil}, 2: {name: "raw"}, 3: {"url", text, nil}, 4: {"data", single, valueMsg},
		5: {"metadata", single, structMsg}, 6: {"filename", text, nil}, 7: {"media_type", text, nil},
	}
	messageMsg.fields = [maxField + 1]field{
		1: {"message_id", text, nil}, 2: {"context_id", text, nil}, 3: {"task_id", text, nil}, 4: {name: "role"},
		5: {"parts", repeated, partMsg}, 6: {"metadata", single, structMsg}, 7: {"extensions", text, nil},
		8: {"reference_task_ids", text, nil},
	}
	artifactMsg.fields = [maxField + 1]field{
		artifactID: {"artifact_id", text, nil}, 2: {"name", text, nil}, 3: {"description", text, nil},
		artifactParts: {"parts", repeated, partMsg}, 5: {"metadata", single, structMsg}, 6: {"extensions", text, nil},
	}
	statusMsg.fields = [maxField + 1]field{
		statusState: {name: "state"}, 2: {"message", single, messageMsg}, statusTimestamp: {"timestamp", single, timestampMsg},
	}
	taskMsg.fields = [maxField + 1]field{
		taskID: {"id", text, nil}, taskContextID: {"context_id", text, nil}, taskStatus: {"status", single, statusMsg},
		taskArtifacts: {"artifacts", repeated, artifactMsg}, taskHistory: {"history", repeated, messageMsg},
		6: {"metadata", single, structMsg},
	}
	statusUpdateMsg.fields = [maxField + 1]field{
		1: {"task_id", text, nil}, 2: {"context_id", text, nil}, 3: {"status", single, statusMsg}, 4: {"metadata", single, structMsg},
	}
	artifactUpdateMsg.fields = [maxField + 1]field{
		1: {"task_id", text, nil}, 2: {"context_id", text, nil}, 3: {"artifact", single, artifactMsg}, 4: {name: "append"},
		5: {name: "last_chunk"}, 6: {"metadata", single, structMsg},
	}
	responseMsg.fields = [maxField + 1]field{
		responseTask: {"task", single, taskMsg}, responseMessage: {"message", single, messageMsg},
		responseStatusUpdate:   {"status_update", single, statusUpdateMsg},
		responseArtifactUpdate: {"artifact_update", single, artifactUpdateMsg},
	}
}
