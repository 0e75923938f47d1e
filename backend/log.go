package backend

// ResolveStart returns the position that a read of the row's log starts behind, or ErrLogRange. search returns the last
// position whose event has at most the given Mark, 0 if there is none; it is asked for AfterVersion only.
//
// A start at seq 0, or version 0, is the first event of this log: of this incarnation.
func ResolveStart(row *Row, start Start, search func(mark int64) (int64, error)) (int64, error) {
	begin := row.StartSeq - 1
	switch start.Kind {
	case FromNow:
		return row.LastSeq, nil
	case AfterVersion:
		if start.N == 0 {
			break
		}
		mark := Mark(start.N, false)
		if start.N > row.TaskVersion() || mark < row.DroppedMark {
			return 0, errRange(row)
		}
		seq, err := search(mark)
		if err != nil {
			return 0, err
		}
		return max(seq, row.FirstSeq-1), nil
	default:
		if start.N == 0 {
			break
		}
		begin = start.N
	}
	if begin < row.FirstSeq-1 || begin > row.LastSeq {
		return 0, errRange(row)
	}
	return begin, nil
}

func errRange(row *Row) error {
	return &Error{
		Reason: ErrLogRange, Detail: "the log does not reach there",
		Meta: map[string]string{"earliest_seq": itoa(row.FirstSeq), "last_seq": itoa(row.LastSeq)},
	}
}

// PlanRead checks a ReadLogRequest against the row and resolves its start.
func PlanRead(row *Row, req *ReadLogRequest, search func(mark int64) (int64, error)) (LogPage, error) {
	if !row.LogFor(req.Owner) {
		return LogPage{}, errNotFound()
	}
	from, err := ResolveStart(row, req.Start, search)
	if err != nil {
		return LogPage{}, err
	}
	return LogPage{Log: row.Log(), From: from}, nil
}

// Page bounds what a read collects: rows or events up to a number and a sum of sizes, at least one.
type Page struct {
	Max      int
	MaxBytes int
	count    int
	bytes    int
}

// Take reports whether an item of the size still fits, and counts it if it does.
func (p *Page) Take(size int) bool {
	if p.count >= p.Max || (p.count > 0 && p.MaxBytes > 0 && p.bytes+size > p.MaxBytes) {
		return false
	}
	p.count++
	p.bytes += size
	return true
}
