package memory

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// Get reads a task.
func (s *Store) Get(ctx context.Context, req *backend.GetRequest) (backend.GetResult, error) {
	sh := s.shard(req.Key)
	if err := sh.enter(ctx); err != nil {
		return backend.GetResult{}, err
	}
	defer sh.leave()
	at := sh.read(req.Key, req.Extent)
	result, err := at.row.Result(req.Owner, nil, s.now())
	switch {
	case err != nil:
	case req.InPieces && at.size(req.Key.TaskID, req.Extent) >= 4*minPiece:
		result.Version, result.Owner, result.Pieces = at.row.Version, at.row.Owner, at.view.pieces()
	default:
		result.Stored = at.stored(req.Key.TaskID, req.Extent)
	}
	return result, err
}

// instant is a record as it is at one instant.
type instant struct {
	row    backend.Row
	view   view
	events []backend.Event
}

// read returns what is under the key, of the body what the extent needs.
func (sh *shard) read(key backend.Key, e backend.Extent) (at instant) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	rec := sh.lookup(key)
	return instant{row: rec.row, view: rec.body.view(e), events: rec.log.events.live()}
}

// size is the size of what stored puts together.
func (at *instant) size(id string, e backend.Extent) int {
	if e.StateOnly {
		return len(at.state(id))
	}
	at.view.keep(e.History)
	return at.view.size()
}

// stored puts the task together.
func (at *instant) stored(id string, e backend.Extent) backend.Stored {
	stored := backend.Stored{Version: at.row.Version, Owner: at.row.Owner}
	if e.StateOnly {
		stored.Task = at.state(id)
		return stored
	}
	at.view.keep(e.History)
	stored.Task = at.view.appendTo(make([]byte, 0, at.view.size()))
	return stored
}

func (at *instant) state(id string) []byte {
	return document.AppendState(nil, id, at.row.ContextID, at.row.State, at.row.Time)
}
