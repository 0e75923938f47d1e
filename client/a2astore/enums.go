package a2astore

import (
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

const (
	statePrefix = "TASK_STATE_"
	rolePrefix  = "ROLE_"
)

func encodeState(s a2a.TaskState) (taskstorev1.TaskState, *fieldError) {
	n, ok := enumNumber(string(s), statePrefix, taskstorev1.TaskState_value, taskstorev1.TaskState_name)
	if !ok {
		return 0, refuse("unknown task state %s", quoteShort(string(s)))
	}
	return taskstorev1.TaskState(n), nil
}

func decodeState(s taskstorev1.TaskState) a2a.TaskState {
	return a2a.TaskState(enumName(int32(s), statePrefix, taskstorev1.TaskState_name))
}

func encodeRole(r a2a.MessageRole) (taskstorev1.Role, *fieldError) {
	n, ok := enumNumber(string(r), rolePrefix, taskstorev1.Role_value, taskstorev1.Role_name)
	if !ok {
		return 0, refuse("unknown role %s", quoteShort(string(r)))
	}
	return taskstorev1.Role(n), nil
}

func decodeRole(r taskstorev1.Role) a2a.MessageRole {
	return a2a.MessageRole(enumName(int32(r), rolePrefix, taskstorev1.Role_name))
}

// enumNumber is the inverse of enumName. It has no number for a synthetic name of a known number, nor for one that is not
// spelled the way enumName does: those would be read back as another string.
func enumNumber(s, prefix string, values map[string]int32, names map[int32]string) (int32, bool) {
	if s == "" {
		return 0, true
	}
	if n, ok := values[s]; ok {
		return n, true
	}
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != digits {
		return 0, false
	}
	if _, known := names[int32(n)]; known {
		return 0, false
	}
	return int32(n), true
}

// enumName returns the string that a2a-go uses for a value of an enum; for a number that is not known here, a synthetic one
// that can be written back.
func enumName(n int32, prefix string, names map[int32]string) string {
	if n == 0 {
		return ""
	}
	if name, ok := names[n]; ok {
		return name
	}
	return prefix + strconv.FormatInt(int64(n), 10)
}

func quoteShort(s string) string {
	if len(s) > maxKeyShown {
		s = s[:maxKeyShown]
	}
	return strconv.QuoteToASCII(s)
}
