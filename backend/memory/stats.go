package memory

// Stats is what a Store shows of itself.
type Stats struct {
	// Used is how many bytes are taken, of Limit.
	Used, Limit int64
}

// Stats returns the present state.
func (s *Store) Stats() Stats { return Stats{Used: s.memory.used.Load(), Limit: s.memory.limit} }
