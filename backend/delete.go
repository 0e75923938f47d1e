package backend

import "time"

// PlanDelete decides a Delete: the row that it leaves, and whether it removes anything. When it does, the engine removes
// the task, the log and what hangs on them in the same step.
func PlanDelete(row *Row, req *DeleteRequest, now time.Time) (next Row, deleted bool, err error) {
	if !row.LogFor(req.Owner) || (req.Version != 0 && row.Kind != RowTask) {
		return *row, false, nil
	}
	if req.Version != 0 && req.Version != row.Version {
		return *row, false, errVersion(row)
	}
	return row.bury(now.UnixNano()), true, nil
}
