package server

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/audit"
	"github.com/a2a-taskstore/taskstore/server/follow"
	"github.com/a2a-taskstore/taskstore/server/metrics"
)

// pageBytes is what a page of a list, or a frame of events, may weigh: less than the 4 MiB that gRPC clients take by default.
const pageBytes = 3 << 20

// service answers the calls. Each method checks its request (validator), hands it to the store, and turns the answer into the
// message; what the store decides is its own business.
type service struct {
	store     backend.Store
	hub       *follow.Hub
	reader    *follow.Reader
	retention backend.Retention
	// maxPayload is the largest task or event that a message has room for.
	maxPayload int64
	// guarded says that callers are principals, and may do what their grants say.
	guarded bool
	admit   *admission
	audit   *audit.Log // nil: off
	seen    *metrics.Server
	quotas  *quotas
	// draining is closed when calls that wait must end.
	draining <-chan struct{}
}

func (s *service) validator() *validator { return &validator{maxEvent: s.maxPayload} }

// pageBudget leaves room for what surrounds so many payloads in a message of pageBytes, or of the configured size if that is
// less.
func (s *service) pageBudget(payloads int) int {
	const each = maxID + 64
	return max(int(min(pageBytes-envelope, s.maxPayload))-payloads*each, 1)
}

// stamp returns nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
