package memory

import "context"

// noContext is for property tests, whose steps have no context of their own.
var noContext = context.Background()
