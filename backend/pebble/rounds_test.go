//go:build !race

package pebble

// How often the random tests go round.
const (
	powerCuts  = 1000
	diskFaults = 40 // of each kind
)
