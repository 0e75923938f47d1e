package backendtest

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

var fidelityScenarios = []scenario{
	{name: "Fidelity/Payloads", run: testPayloads},
	{name: "Fidelity/Random", run: testRandomPayloads},
	{name: "Fidelity/Encodings", run: testEncodings},
	{name: "Fidelity/Large", run: testLargePayload},
	{name: "Fidelity/IDs", run: testIDs},
	{name: "Fidelity/Scopes", run: testScopeNames},
}

// strange is a task with what careless stores change.
func strange(id string) *pb.Task {
	m := rich(id)
	m.Status.State = 77
	m.Status.Timestamp = &timestamppb.Timestamp{Seconds: -62135596800, Nanos: 1}
	addUnknown(m.Status.Timestamp, 910, "timestamp")
	m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
		"": structpb.NewStringValue(""), "nan": structpb.NewNumberValue(math.NaN()), "inf": structpb.NewNumberValue(math.Inf(1)),
		"-0": structpb.NewNumberValue(math.Copysign(0, -1)), "empty": {}, "null": structpb.NewNullValue(),
		"nul\x00": structpb.NewStringValue("a\x00b"), "big": structpb.NewNumberValue(1 << 60),
		"list":   structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}, structpb.NewNumberValue(math.NaN())}}),
		"struct": structpb.NewStructValue(&structpb.Struct{}),
	}}
	addUnknown(m.Metadata, 911, "struct")
	addUnknown(m.Metadata.Fields["list"], 912, "value")
	part := m.Artifacts[0].Parts[1]
	part.Content = &pb.Part_Data{Data: structpb.NewNumberValue(math.Inf(-1))}
	part.Metadata = &structpb.Struct{}
	m.Artifacts[0].Parts = append(m.Artifacts[0].Parts, &pb.Part{}, &pb.Part{Content: &pb.Part_Raw{Raw: []byte{}}},
		&pb.Part{Content: &pb.Part_Raw{Raw: []byte{0, 0xff, 0xfe}}}, textPart("\x00\ufeff\ufffd\U0010ffff"))
	m.Artifacts = append(m.Artifacts, &pb.Artifact{}, &pb.Artifact{ArtifactId: "nul\x00"})
	m.History = append(m.History, &pb.Message{}, &pb.Message{Role: 99, Extensions: []string{"", "x", ""}})
	return m
}

func testPayloads(t *testing.T, e *env) {
	s := e.space(t)
	m := strange("t")
	event := &pb.StreamResponse{Payload: &pb.StreamResponse_Task{Task: m}}
	addUnknown(event, 913, "event")
	later := &pb.StreamResponse{} // of a kind that a later A2A adds
	addUnknown(later, 914, "payload")
	s.insert(m, event, later)
	s.append(s.appending("t", event))
	s.holds(m)
	s.equal(decodeTask(t, s.list(backend.ListRequest{Extent: backend.All}).Rows[0].Task), m)
	for i, want := range []*pb.StreamResponse{event, later, event} {
		s.equal(s.event(s.log("t")[i]), want)
	}
	s.must(s.change("t", statusDelta(t, &pb.TaskStatus{State: -5}), present)) // what stays, stays
	m.Status = &pb.TaskStatus{State: -5}
	s.holds(m)
	s.must(s.change("t", putDelta(t, m.Artifacts[0]), present))
	s.holds(m)
}

func testRandomPayloads(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		s := e.space(t)
		m := genTask(t, "t")
		req := s.whole(m, absent)
		req.Events = []backend.EventInput{snapshot}
		s.must(req)
		s.holds(m)
		s.equal(s.event(s.log("t")[0]).GetTask(), m)
	})
}

// testEncodings: encodings that encoders do not make, and that parsers take all the same.
func testEncodings(t *testing.T, e *env) {
	base := encode(t, taskIn("t", working))
	group := protowire.AppendTag(nil, 950, protowire.StartGroupType)
	group = protowire.AppendTag(group, 1, protowire.VarintType)
	group = protowire.AppendVarint(group, 5)
	group = protowire.AppendTag(group, 950, protowire.EndGroupType)
	padded := []byte{4<<3 | 2, 0x86, 0x80, 0x00, 1<<3 | 2, 0x83, 0x00, 'a', 'b', 'c'} // an artifact, its lengths with idle bytes
	mixed := bytes.Join([][]byte{
		encode(t, &pb.Task{History: []*pb.Message{message("1")}}), base, encode(t, &pb.Task{Artifacts: []*pb.Artifact{artifact("a", "x")}}),
		encode(t, &pb.Task{History: []*pb.Message{message("2")}}), encode(t, &pb.Task{ContextId: "last wins"}),
		encode(t, &pb.Task{Artifacts: []*pb.Artifact{artifact("b", "x")}}),
	}, nil)
	wrongType := protowire.AppendVarint(protowire.AppendTag(bytes.Clone(base), 4, protowire.VarintType), 7)
	for name, encoding := range map[string][]byte{
		"group": append(bytes.Clone(base), group...), "padded lengths": append(bytes.Clone(base), padded...),
		"fields in any order": mixed, "another wire type": wrongType,
	} {
		s := e.space(t)
		want := decodeTask(t, encoding)
		d, err := document.ParseTask(encoding)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		req := &backend.SaveRequest{Key: s.key("t"), Owner: s.owner, Task: d, Events: []backend.EventInput{snapshot}}
		s.must(req)
		s.holds(want)
		for _, a := range want.Artifacts { // deltas on such tasks count right, too
			a.Parts = append(a.Parts, textPart("more"))
			req := s.change("t", partsDelta(t, a.ArtifactId, -1, textPart("more")), present)
			req.Events = []backend.EventInput{snapshot}
			s.must(req)
			s.holds(want)
			log := s.log("t")
			s.equal(s.event(log[len(log)-1]).GetTask(), want)
		}
	}
}

func testLargePayload(t *testing.T, e *env) {
	s := e.space(t)
	m := taskIn("t", working)
	m.Artifacts = []*pb.Artifact{{ArtifactId: "a", Parts: []*pb.Part{{Content: &pb.Part_Raw{Raw: bytes.Repeat([]byte{0xde, 0xad}, 1<<20)}}}}}
	req := s.whole(m, absent)
	req.Events = []backend.EventInput{snapshot}
	s.must(req)
	part := textPart(strings.Repeat("y", 1<<20))
	s.must(s.change("t", partsDelta(t, "a", 1, part), present))
	m.Artifacts[0].Parts = append(m.Artifacts[0].Parts, part)
	s.holds(m)
	if got := len(s.log("t")); got != 1 {
		t.Errorf("%d events", got)
	}
	many := taskIn("many", working)
	for i := range 2000 {
		many.History = append(many.History, message(fmt.Sprint(i)))
		many.Artifacts = append(many.Artifacts, artifact(fmt.Sprint(i), "x"))
	}
	s.insert(many)
	s.must(s.change("many", putDelta(t, artifact("1000", "y")), present))
	many.Artifacts[1000] = artifact("1000", "y")
	s.holds(many)
}

// testIDs: any characters make a key, and no two of them the same.
func testIDs(t *testing.T, e *env) {
	s := e.space(t)
	for _, id := range awkwardIDs {
		s.insert(&pb.Task{Id: id, ContextId: id}, textEvent(id))
	}
	for i, id := range awkwardIDs {
		s.holds(&pb.Task{Id: id, ContextId: id})
		log := s.log(id)
		if len(log) != 1 {
			t.Fatalf("log of %q has %d events", id, len(log))
		}
		s.equal(s.event(log[0]), textEvent(id))
		s.same(s.walk(backend.ListRequest{ContextID: id}), []string{id})
		if i%2 == 0 {
			s.mustDelete(id)
		}
	}
	var left []*pb.Task
	for i, id := range awkwardIDs {
		if i%2 == 0 {
			s.missing(id)
			continue
		}
		s.holds(&pb.Task{Id: id, ContextId: id})
		left = append(left, &pb.Task{Id: id})
	}
	s.same(s.walk(backend.ListRequest{Size: 5}), sorted(left))
}

// testScopeNames: tenants, owners and ids are a tuple, whatever is in them.
func testScopeNames(t *testing.T, e *env) {
	names := []string{"", "a", "ab", "abc", "b", "bc", "c", "a/b", "a\x01", "\x01a", "a\x01b", "\x01", "\u00ff", "a\u00ff", "\U0010ffff", strings.Repeat("n", 256)}
	prefix := e.space(t).tenant // the store may be shared with other spaces
	scope := func(tenant, owner string) *space {
		s := e.space(t).as(backend.OwnerOf(owner))
		s.tenant = tenant
		if tenant != "" && len(tenant) < 100 {
			s.tenant = prefix + tenant
		}
		return s
	}
	task := func(tenant, owner, id string) *pb.Task {
		return &pb.Task{Id: id, ContextId: owner, History: []*pb.Message{{MessageId: tenant, ContextId: owner, TaskId: id}}}
	}
	for i, tenant := range names {
		for j, id := range names[1:] {
			owner := names[(i+j)%len(names)]
			scope(tenant, owner).insert(task(tenant, owner, id), textEvent(tenant+"|"+id))
			key := scope(tenant, owner).claimRequest(id, "m", fmt.Sprint(i, "/", j), "token")
			if res, err := e.store.ClaimKey(t.Context(), key); err != nil || res.Outcome != backend.Claimed {
				t.Fatalf("claim of %q for %q %q: %+v, %v", id, tenant, owner, res, err)
			}
		}
	}
	for i, tenant := range names {
		want := map[string][]*pb.Task{}
		for j, id := range names[1:] {
			owner := names[(i+j)%len(names)]
			s, m := scope(tenant, owner), task(tenant, owner, id)
			s.holds(m)
			s.equal(s.event(s.log(id)[0]), textEvent(tenant+"|"+id))
			want[owner] = append(want[owner], m)
			s.claim(id, "m", "x", "x", backend.Replay, fmt.Sprint(i, "/", j))
		}
		for _, owner := range names {
			s := scope(tenant, owner)
			s.same(s.walk(backend.ListRequest{}), sorted(want[owner]))
			if owner != "" {
				s.same(s.walk(backend.ListRequest{ContextID: owner}), sorted(want[owner]))
			}
		}
	}
}
