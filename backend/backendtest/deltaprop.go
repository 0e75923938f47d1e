package backendtest

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// The generators draw from few ids, so that they often meet.
var (
	genText       = rapid.SampledFrom([]string{"", "a", "b", "c", "ü\x01/", "a longer text that varies sizes", "nul\x00"})
	genArtifactID = rapid.SampledFrom([]string{"", "a", "b", "c", "d"})
	genState      = rapid.Custom(func(t *rapid.T) pb.TaskState {
		return pb.TaskState(rapid.OneOf(rapid.Int32Range(0, 8), rapid.SampledFrom([]int32{-1, 9, 1 << 30})).Draw(t, "state"))
	})
	genTime = rapid.Custom(func(t *rapid.T) *timestamppb.Timestamp {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &timestamppb.Timestamp{
			Seconds: rapid.SampledFrom([]int64{-62135596800, -2, -1, 0, 1, 1740000000, 253402300799}).Draw(t, "seconds"),
			Nanos:   rapid.SampledFrom([]int32{0, 1, 500000000, 999999999}).Draw(t, "nanos"),
		}
	})
	genStruct = rapid.Custom(func(t *rapid.T) *structpb.Struct {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &structpb.Struct{Fields: map[string]*structpb.Value{genText.Draw(t, "key"): genValue.Draw(t, "value")}}
	})
	genValue = rapid.SampledFrom([]*structpb.Value{
		{}, structpb.NewNullValue(), structpb.NewNumberValue(math.NaN()), structpb.NewNumberValue(math.Inf(-1)),
		structpb.NewStringValue("x\x00"), structpb.NewBoolValue(true),
		structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}, structpb.NewNumberValue(-0.0)}}),
	})
)

// genUnknown gives a message an unknown field, sometimes.
func genUnknown(t *rapid.T, m proto.Message) {
	if rapid.IntRange(0, 3).Draw(t, "unknown") == 0 {
		addUnknown(m, 1000, genText.Draw(t, "unknown value"))
	}
}

func genPart(t *rapid.T) *pb.Part {
	p := &pb.Part{Metadata: genStruct.Draw(t, "metadata"), Filename: genText.Draw(t, "filename")}
	switch rapid.IntRange(0, 4).Draw(t, "content") {
	case 0:
		p.Content = &pb.Part_Text{Text: genText.Draw(t, "text")}
	case 1:
		p.Content = &pb.Part_Raw{Raw: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "raw")}
	case 2:
		p.Content = &pb.Part_Url{Url: genText.Draw(t, "url")}
	case 3:
		p.Content = &pb.Part_Data{Data: genValue.Draw(t, "data")}
	}
	genUnknown(t, p)
	return p
}

func genParts(t *rapid.T) (ps []*pb.Part) {
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		ps = append(ps, genPart(t))
	}
	return ps
}

func genArtifact(t *rapid.T) *pb.Artifact {
	a := &pb.Artifact{
		ArtifactId: genArtifactID.Draw(t, "artifact"), Description: genText.Draw(t, "description"), Parts: genParts(t),
		Metadata: genStruct.Draw(t, "metadata"),
	}
	genUnknown(t, a)
	return a
}

func genArtifacts(t *rapid.T) (as []*pb.Artifact) {
	for range rapid.IntRange(0, 3).Draw(t, "artifacts") {
		as = append(as, genArtifact(t))
	}
	return as
}

func genMessages(t *rapid.T) (ms []*pb.Message) {
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		m := &pb.Message{MessageId: genText.Draw(t, "message"), Role: pb.Role_ROLE_AGENT, Parts: genParts(t)}
		genUnknown(t, m)
		ms = append(ms, m)
	}
	return ms
}

func genStatus(t *rapid.T) *pb.TaskStatus {
	st := &pb.TaskStatus{State: genState.Draw(t, "state"), Timestamp: genTime.Draw(t, "time")}
	if rapid.Bool().Draw(t, "with message") {
		st.Message = &pb.Message{MessageId: "status", Parts: genParts(t)}
	}
	genUnknown(t, st)
	return st
}

// genHead fills every field but artifacts and history.
func genHead(t *rapid.T, id string) *pb.Task {
	m := &pb.Task{Id: id, ContextId: "ctx", Metadata: genStruct.Draw(t, "metadata")}
	if rapid.IntRange(0, 5).Draw(t, "with status") > 0 {
		m.Status = genStatus(t)
	}
	genUnknown(t, m)
	return m
}

func genTask(t *rapid.T, id string) *pb.Task {
	m := genHead(t, id)
	m.Artifacts, m.History = genArtifacts(t), genMessages(t)
	return m
}

// genDelta draws a delta, and applies it to the message as a caller who saves whole tasks would have. fits is false if the
// store must refuse it.
func genDelta(t *rapid.T, m *pb.Task) (d *document.Delta, fits bool) {
	d = &document.Delta{MaxHistory: -1}
	switch rapid.IntRange(0, 2).Draw(t, "head") {
	case 1:
		head := genHead(t, m.Id)
		d = headDelta(t, head)
		head.Artifacts, head.History = m.Artifacts, m.History
		proto.Reset(m)
		proto.Merge(m, head)
	case 2:
		m.Status = genStatus(t)
		d.Status = parseStatus(t, m.Status)
	}
	fits = genArtifactChange(t, m, d)
	if rapid.Bool().Draw(t, "history") {
		added := genMessages(t)
		m.History = append(m.History, added...)
		d.History = parseHistory(t, added...)
	}
	if keep := rapid.IntRange(-2, 4).Draw(t, "max history"); keep >= 0 {
		d.MaxHistory = keep
		m.History = m.History[max(0, len(m.History)-keep):]
	}
	return d, fits
}

func genArtifactChange(t *rapid.T, m *pb.Task, d *document.Delta) (fits bool) {
	held := func(id string) (at, n int) {
		for i, a := range m.Artifacts {
			if a.ArtifactId == id {
				at, n = i, n+1
			}
		}
		return at, n
	}
	switch rapid.IntRange(0, 5).Draw(t, "artifact change") {
	case 1:
		m.Artifacts = genArtifacts(t)
		d.Artifacts = parseArtifacts(t, m.Artifacts)
	case 2:
		a := genArtifact(t)
		d.Put = parseArtifact(t, a)
		switch at, n := held(a.ArtifactId); n {
		case 0:
			m.Artifacts = append(m.Artifacts, a)
		case 1:
			m.Artifacts[at] = a
		default:
			return false
		}
	case 3, 4, 5:
		id, parts := genArtifactID.Draw(t, "appended to"), genParts(t)
		d.Append = &document.AppendToArtifact{ID: id, Base: -1, Parts: parseParts(t, parts...)}
		at, n := held(id)
		if n == 1 && rapid.Bool().Draw(t, "base") {
			d.Append.Base = len(m.Artifacts[at].Parts)
		}
		if rapid.Bool().Draw(t, "fields") {
			fields := genArtifact(t)
			fields.ArtifactId, fields.Parts = id, nil
			d.Append.Replace, d.Append.Fields = true, parseArtifact(t, fields).Fields
			if n == 1 {
				fields.Parts = m.Artifacts[at].Parts
				m.Artifacts[at] = fields
			}
		}
		if n != 1 {
			return false
		}
		m.Artifacts[at].Parts = append(m.Artifacts[at].Parts, parts...)
	}
	return true
}

// testDeltasLikeWholeSaves plays random deltas against one task and whole saves of what they should leave against another,
// and wants the two to be the same but for their id.
func testDeltasLikeWholeSaves(t *testing.T, e *env) {
	rapid.Check(t, func(t *rapid.T) {
		s := e.space(t)
		want := genTask(t, "t")
		s.insert(want, textEvent("x"))
		twins := s.twin()
		twins.insert(want, textEvent("x"))
		for range rapid.IntRange(1, 8).Draw(t, "deltas") {
			e.clock.advance(time.Millisecond)
			next := proto.CloneOf(want)
			d, fits := genDelta(t, next)
			pre := rapid.SampledFrom([]backend.Precondition{present, whatever, notTerminal}).Draw(t, "precondition")
			req := s.change("t", d, pre)
			if rapid.Bool().Draw(t, "snapshot") {
				req.Events = []backend.EventInput{snapshot}
			}
			twin := twins.whole(next, pre)
			twin.Events = req.Events
			before := s.everything("t")
			res, err := s.store.Save(t.Context(), req)
			if !fits {
				if err == nil {
					t.Fatalf("a delta that does not fit was accepted: %+v", d)
				}
				s.unchanged("t", before)
				continue
			}
			wantRes, wantErr := twins.store.Save(t.Context(), twin)
			if backend.ReasonOf(err) != backend.ReasonOf(wantErr) || res.Version != wantRes.Version || res.Seq != wantRes.Seq {
				t.Fatalf("delta: %+v, %v; whole save: %+v, %v", res, err, wantRes, wantErr)
			}
			if err == nil {
				want = next
			}
			s.holds(want)
			s.sameAs(twins, want)
		}
	})
}

// twin returns a tenant of its own for the same task ids.
func (s *space) twin() *space { return s.env.space(s.tb) }

// sameAs wants two tenants to show the same for a task: Get, log and lists.
func (s *space) sameAs(o *space, m *pb.Task) {
	s.Helper()
	_, a := s.get(m.Id)
	_, b := o.get(m.Id)
	if a.Version != b.Version || a.LastSeq != b.LastSeq || a.Final != b.Final || a.FinalSeq != b.FinalSeq ||
		a.FinalizedAt.IsZero() != b.FinalizedAt.IsZero() || a.Owner != b.Owner {
		s.Fatalf("delta leaves %+v, whole save %+v", a, b)
	}
	if !s.lacks(Clock) && (!a.CreatedAt.Equal(b.CreatedAt) || !a.UpdatedAt.Equal(b.UpdatedAt) || !a.FinalizedAt.Equal(b.FinalizedAt)) {
		s.Fatalf("delta leaves the times of %+v, whole save of %+v", a, b)
	}
	for _, x := range []backend.Extent{{StateOnly: true}, {OmitArtifacts: true, History: 1}} {
		a, errA := s.read(m.Id, x)
		b, errB := o.read(m.Id, x)
		if errA != nil || errB != nil {
			s.Fatalf("reading %+v: %v, %v", x, errA, errB)
		}
		s.equal(decodeTask(s.tb, a.Task), decodeTask(s.tb, b.Task))
	}
	eventsA, eventsB := s.log(m.Id), o.log(m.Id)
	if len(eventsA) != len(eventsB) {
		s.Fatalf("%d events, %d by whole saves", len(eventsA), len(eventsB))
	}
	for i, ev := range eventsA {
		s.equal(s.event(ev), s.event(eventsB[i]))
	}
	since, _ := document.NewTimestamp(0, 1)
	filters := []backend.ListRequest{{}, {Since: since}}
	if state := int32(m.GetStatus().GetState()); document.KnownState(state) { // others are refused as filters
		filters = append(filters, backend.ListRequest{State: state}, backend.ListRequest{State: (state + 1) % 9})
	}
	for _, req := range filters {
		req.Owner, req.Size, req.Extent, req.MaxBytes = s.owner, 10, backend.All, 1<<20
		reqB := req
		req.Tenant, reqB.Tenant = s.tenant, o.tenant
		a, errA := s.store.List(s.Context(), &req)
		b, errB := o.store.List(s.Context(), &reqB)
		if errA != nil || errB != nil || a.Total != b.Total || len(a.Rows) != len(b.Rows) {
			s.Fatalf("list %+v: %d rows, %v; by whole saves %d rows, %v", req, len(a.Rows), errA, len(b.Rows), errB)
		}
	}
}

func (s *space) event(e backend.Event) *pb.StreamResponse {
	s.Helper()
	m := &pb.StreamResponse{}
	if err := proto.Unmarshal(e.Bytes, m); err != nil {
		s.Fatalf("event %d does not parse: %v", e.Seq, err)
	}
	return m
}
