package server

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

func genList(t *rapid.T) *backend.ListRequest {
	id := rapid.StringMatching(`[ab]{0,2}`)
	return &backend.ListRequest{
		Tenant:    id.Draw(t, "tenant"),
		Owner:     backend.Owner{Set: rapid.Bool().Draw(t, "set")},
		ContextID: id.Draw(t, "context"),
		State:     rapid.Int32Range(0, 8).Draw(t, "state"),
		Since:     genTime(t),
	}
}

func genTime(t *rapid.T) document.Timestamp {
	if !rapid.Bool().Draw(t, "valid") {
		return document.Timestamp{}
	}
	return document.Timestamp{Valid: true, Seconds: rapid.Int64Range(-3, 3).Draw(t, "s"), Nanos: rapid.Int32Range(0, 3).Draw(t, "ns")}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req, at := genList(t), &backend.Position{Time: genTime(t), TaskID: rapid.String().Draw(t, "id")}
		token := encodeToken(req, at)
		got, ok := decodeToken(req, token)
		if !ok || *got != *at {
			t.Fatalf("%q gives %v, %v, want %v", token, got, ok, at)
		}

		same := *req
		same.Size, same.Extent, same.SkipTotal, same.MaxBytes = 7, backend.Extent{History: 3, OmitArtifacts: true}, true, 5
		if _, ok := decodeToken(&same, token); !ok {
			t.Error("refused with another page size, extent or count")
		}
		if other := genList(t); *other != *req {
			if _, ok := decodeToken(other, token); ok {
				t.Errorf("accepted by another list: %+v, made for %+v", other, req)
			}
		}

		changed := []byte(token)
		i := rapid.IntRange(0, len(changed)-1).Draw(t, "at")
		changed[i] = rapid.Byte().Draw(t, "byte")
		if string(changed) != token {
			if _, ok := decodeToken(req, string(changed)); ok {
				t.Errorf("%q accepted, changed from %q", changed, token)
			}
		}
		if _, ok := decodeToken(req, token[:i]); ok {
			t.Errorf("%q accepted, cut from %q", token[:i], token)
		}
		if _, ok := decodeToken(req, token+"A"); ok {
			t.Error("accepted with more behind it")
		}
		if _, ok := decodeToken(req, token[:i]+"\n"+token[i:]); ok {
			t.Error("accepted with a line break in it")
		}
		if _, ok := decodeToken(req, rapid.String().Draw(t, "garbage")); ok {
			t.Error("garbage accepted")
		}
	})
}
