//go:build race

package pebble

// The race detector makes each round about ten times as dear, and finds races in the first ones.
const (
	powerCuts  = 100
	diskFaults = 10
)
