package index

import (
	"bytes"
	"container/heap"
	"errors"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Iterator walks the keys of a range in ascending order. A new one stands nowhere: SeekGE comes first.
type Iterator interface {
	// SeekGE moves to the first key ≥ key, which may lie outside of the range, and reports whether there is one in it.
	SeekGE(key []byte) bool
	// Next moves to the next key and reports whether there is one.
	Next() bool
	// Key returns the current key, valid until the next call.
	Key() []byte
	// Error returns what made SeekGE or Next return false, nil at the end of the range.
	Error() error
	Close() error
}

// Source is an ordered set of index keys, of one instant.
type Source interface {
	// NewIter returns an Iterator over the keys in [lower, upper).
	NewIter(lower, upper []byte) (Iterator, error)
}

// Counter is a Source that counts the keys in [lower, upper) faster than by walking over them.
type Counter interface {
	Count(lower, upper []byte) (int, error)
}

// Walk calls yield with the ids of the tasks that match the request's filters, in the order of the list, starting behind
// After, until yield returns false or an error. A task's keys are in one of the sources. Size, MaxBytes, Extent and
// SkipTotal are the caller's matter.
func Walk(sources []Source, req *backend.ListRequest, yield func(taskID string) (more bool, err error)) (err error) {
	var m merge
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(sources, req); err != nil {
		return err
	}
	for len(m) > 0 {
		s := m[0]
		id, err := taskID(s.tail())
		if err != nil {
			return err
		}
		if more, err := yield(id); err != nil || !more {
			return err
		}
		if s.iter.Next() {
			heap.Fix(&m, 0)
			continue
		}
		heap.Pop(&m)
		if err := errors.Join(s.iter.Error(), s.iter.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Count returns the number of tasks that match the request's filters, whatever its After.
func Count(sources []Source, req *backend.ListRequest) (int, error) {
	total := 0
	for _, src := range sources {
		groups, err := findGroups(src, req)
		if err != nil {
			return 0, err
		}
		for _, group := range groups {
			n, err := countRange(src, group, upperBound(group, req))
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

func countRange(src Source, lower, upper []byte) (n int, err error) {
	if c, ok := src.(Counter); ok {
		return c.Count(lower, upper)
	}
	it, err := src.NewIter(lower, upper)
	if err != nil {
		return 0, err
	}
	for ok := it.SeekGE(lower); ok; ok = it.Next() {
		n++
	}
	return n, errors.Join(it.Error(), it.Close())
}

// findGroups returns the prefixes of the groups that the request's scope has in the source, each up to and including the
// state.
func findGroups(src Source, req *backend.ListRequest) (groups [][]byte, err error) {
	var prefix []byte
	anyOwner := false
	switch {
	case req.ContextID != "":
		prefix = appendStrings([]byte{byContext}, req.Tenant, req.ContextID)
		if anyOwner = !req.Owner.Set; !anyOwner {
			prefix = appendStrings(prefix, req.Owner.Name)
		}
	case req.Owner.Set:
		prefix = appendStrings([]byte{byOwner}, req.Tenant, req.Owner.Name)
	default:
		prefix = appendStrings([]byte{byTenant}, req.Tenant)
	}
	if req.State != 0 && !anyOwner {
		return [][]byte{appendState(prefix, req.State)}, nil
	}

	it, err := src.NewIter(prefix, successor(prefix))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Error(), it.Close()) }()
	for ok := it.SeekGE(prefix); ok; {
		n := len(prefix)
		if anyOwner {
			n += bytes.IndexByte(it.Key()[n:], end) + 1
		}
		if n += stateLen; len(it.Key()) < n {
			return nil, errMalformed
		}
		group := bytes.Clone(it.Key()[:n])
		if req.State == 0 || bytes.Equal(group[n-stateLen:], appendState(nil, req.State)) {
			groups = append(groups, group)
		}
		ok = it.SeekGE(successor(group))
	}
	return groups, nil
}

// upperBound is where the stream of a group ends: behind the last task that is not older than Since.
func upperBound(group []byte, req *backend.ListRequest) []byte {
	if req.Since.Valid {
		return successor(appendTime(bytes.Clone(group), req.Since))
	}
	return successor(group)
}

// stream is the rest of a group, in list order.
type stream struct {
	iter  Iterator
	group int // the length of the group's prefix
}

func (s *stream) tail() []byte { return s.iter.Key()[s.group:] }

// merge is a heap of streams that stand on a key each.
type merge []*stream

func (m *merge) open(sources []Source, req *backend.ListRequest) error {
	for _, src := range sources {
		groups, err := findGroups(src, req)
		if err != nil {
			return err
		}
		for _, group := range groups {
			if err := m.add(src, group, req); err != nil {
				return err
			}
		}
	}
	heap.Init(m)
	return nil
}

func (m *merge) add(src Source, group []byte, req *backend.ListRequest) error {
	lower, upper := group, upperBound(group, req)
	if req.After != nil {
		lower = appendTail(bytes.Clone(group), req.After.Time, req.After.TaskID)
		lower = append(lower, 0) // no key is the beginning of another: this is the first position behind it
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := src.NewIter(lower, upper)
	if err != nil {
		return err
	}
	if it.SeekGE(lower) {
		*m = append(*m, &stream{iter: it, group: len(group)})
		return nil
	}
	return errors.Join(it.Error(), it.Close())
}

// close closes the streams that are left.
func (m *merge) close() (err error) {
	for _, s := range *m {
		err = errors.Join(err, s.iter.Close())
	}
	return err
}

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return bytes.Compare(m[i].tail(), m[j].tail()) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*stream)) }
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
