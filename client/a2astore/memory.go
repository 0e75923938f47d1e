package a2astore

import (
	"container/list"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// memory remembers what the service stores, of the tasks that were used last. It may be used concurrently.
//
// It forgets at will: a task that is not remembered is saved as a whole.
type memory struct {
	maxTasks int
	maxBytes int64

	mu    sync.Mutex
	tasks map[memoryKey]*list.Element // of *memo
	used  *list.List                  // the last one first
	loose *list.List                  // those of them that have loose texts, in the same order
	bytes int64
}

// maxLoose is how many tasks may have loose texts: each may hold on to more of the heap than it counts, if the caller cut
// its texts out of larger ones, which a2a-go does not do with what it copied.
const maxLoose = 64

type memoryKey struct{ tenant, owner, task string }

func keyOf(scope *taskstorev1.Scope, id a2a.TaskID) memoryKey {
	return memoryKey{scope.GetTenant(), scope.GetOwner(), string(id)}
}

// memo is what the service stores as a version of a task. Whoever took it from the memory owns it, and may change it.
type memo struct {
	key     memoryKey
	version int64
	task    *taskstorev1.Task
	bytes   int64     // see weight
	loose   []*string // texts in task that are not copies yet

	inLoose *list.Element // in the memory's list of those that have loose texts
}

func newMemory(maxTasks int, maxBytes int64) *memory {
	return &memory{maxTasks: maxTasks, maxBytes: maxBytes, tasks: map[memoryKey]*list.Element{}, used: list.New(), loose: list.New()}
}

// keeps reports whether it remembers anything at all.
func (m *memory) keeps() bool { return m.maxTasks > 0 && m.maxBytes > 0 }

// take removes what is remembered of a task, and returns it if it is the version. A task of another version is about to
// change, or has changed; so is one whose version the caller does not know.
func (m *memory) take(key memoryKey, version int64) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.tasks[key]
	if !ok {
		return nil
	}
	found := m.remove(e)
	if found.version != version {
		return nil
	}
	return found
}

// forget removes what is remembered of a task.
func (m *memory) forget(key memoryKey) { m.take(key, 0) }

// put remembers a task, which is the memory's from then on, unless a later version of it is remembered, or it alone would
// be too large. Tasks that were not used for the longest time make room. nil is nothing.
func (m *memory) put(task *memo) {
	if task == nil || !m.keeps() || task.bytes > m.maxBytes {
		return
	}
	if tooLoose := m.add(task); tooLoose != nil {
		tooLoose.detach() // takes time, so that it must not hold the lock
		m.add(tooLoose)
	}
}

// add returns the task that has had loose texts for the longest time, which is not remembered then, if there are too many.
func (m *memory) add(task *memo) (tooLoose *memo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.tasks[task.key]; ok {
		if e.Value.(*memo).version > task.version {
			return nil
		}
		m.remove(e)
	}
	m.tasks[task.key] = m.used.PushFront(task)
	m.bytes += task.bytes
	if len(task.loose) > 0 {
		task.inLoose = m.loose.PushFront(task)
	}
	for len(m.tasks) > m.maxTasks || m.bytes > m.maxBytes {
		m.remove(m.used.Back())
	}
	if m.loose.Len() <= maxLoose {
		return nil
	}
	return m.remove(m.tasks[m.loose.Back().Value.(*memo).key])
}

func (m *memory) remove(e *list.Element) *memo {
	found := m.used.Remove(e).(*memo)
	delete(m.tasks, found.key)
	m.bytes -= found.bytes
	if found.inLoose != nil {
		m.loose.Remove(found.inLoose)
		found.inLoose = nil
	}
	return found
}
