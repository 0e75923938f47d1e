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
	bytes int64
}

type memoryKey struct{ tenant, owner, task string }

func keyOf(scope *taskstorev1.Scope, id a2a.TaskID) memoryKey {
	return memoryKey{scope.GetTenant(), scope.GetOwner(), string(id)}
}

// memo is what the service stores as a version of a task. Whoever took it from the memory owns it, and may change it.
type memo struct {
	key     memoryKey
	version int64
	task    *taskstorev1.Task
	bytes   int64 // see weight
}

func newMemory(maxTasks int, maxBytes int64) *memory {
	return &memory{maxTasks: maxTasks, maxBytes: maxBytes, tasks: map[memoryKey]*list.Element{}, used: list.New()}
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

// has reports whether it remembers the version of a task, or a later one.
func (m *memory) has(key memoryKey, version int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.tasks[key]
	return ok && e.Value.(*memo).version >= version
}

// put remembers a task, which is the memory's from then on, unless a later version of it is remembered, or it alone would
// be too large. Tasks that were not used for the longest time make room. nil is nothing.
func (m *memory) put(task *memo) {
	if task == nil || !m.keeps() || task.bytes > m.maxBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.tasks[task.key]; ok {
		if e.Value.(*memo).version > task.version {
			return
		}
		m.remove(e)
	}
	m.tasks[task.key] = m.used.PushFront(task)
	m.bytes += task.bytes
	for len(m.tasks) > m.maxTasks || m.bytes > m.maxBytes {
		m.remove(m.used.Back())
	}
}

func (m *memory) remove(e *list.Element) *memo {
	found := m.used.Remove(e).(*memo)
	delete(m.tasks, found.key)
	m.bytes -= found.bytes
	return found
}
