package main

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/carve-dev/carve/internal/bench/clock"
)

// calibration is how often a way is asked to find out what it takes of the processors.
const calibration = 100

// computes returns a way that asks nobody, and computes for as long as another takes the processors. At 80 % it shows what the machine,
// whatever else runs there, and Go's scheduler make of the times of a loop that neither waits for a network nor allocates.
func computes(other *way) (*way, error) {
	for range warm {
		if err := other.ask(); err != nil {
			return nil, err
		}
	}
	begin := clock.Process()
	for range calibration {
		if err := other.ask(); err != nil {
			return nil, err
		}
	}
	steps := int(float64(clock.Process()-begin) / calibration / stepTime())
	return &way{name: computing, paced: true, ask: func() error {
		runtime.Gosched() // as whoever waits for an answer
		if spin(steps) == 0 {
			return errors.New("the generator has come to 0") // which it cannot
		}
		return nil
	}}, nil
}

// spin does so many steps of a generator of random numbers (Marsaglia, 2003, doi:10.18637/jss.v008.i14), whose states are not 0.
func spin(steps int) uint64 {
	x := uint64(1)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// stepTime returns what a step of spin takes, in nanoseconds: the least of some tries.
func stepTime() float64 {
	const steps = 1 << 18
	tries := make([]time.Duration, 9)
	for i := range tries {
		begin := time.Now()
		if spin(steps) != 0 {
			tries[i] = time.Since(begin)
		}
	}
	return float64(slices.Min(tries)) / steps
}
