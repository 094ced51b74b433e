//go:build race

package cpu_test

// detectorShare is the part of random models that specs try: the race detector looks for races, of which the first models have as many as all,
// and takes ten times as long.
const detectorShare = 8
