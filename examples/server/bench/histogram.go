package main

import (
	"math"
	"time"
)

// histogram counts times in steps of two per cent from a microsecond on, in memory that does not grow. The zero value is empty.
type histogram struct {
	steps [1024]uint64
	n     uint64
	soon  uint64 // of n: times of at most soon, to the nanosecond
	most  time.Duration
}

// step is how much longer than the times of one step those of the next are.
const step = 1.02

// add counts a time.
func (h *histogram) add(d time.Duration) {
	i := 0
	if d > time.Microsecond {
		i = int(math.Log(float64(d)/float64(time.Microsecond)) / math.Log(step))
	}
	h.steps[min(i, len(h.steps)-1)]++
	h.n++
	if d <= soon {
		h.soon++
	}
	h.most = max(h.most, d)
}

// join adds the times of another.
func (h *histogram) join(other *histogram) {
	for i, n := range other.steps {
		h.steps[i] += n
	}
	h.n, h.soon, h.most = h.n+other.n, h.soon+other.soon, max(h.most, other.most)
}

// at returns a percentile, within a step; 0 where there are no times.
func (h *histogram) at(percent float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	left := uint64(float64(h.n) * percent / 100)
	for i, n := range h.steps {
		if left < n {
			return time.Duration(float64(time.Microsecond) * math.Pow(step, float64(i)+0.5))
		}
		left -= n
	}
	return time.Duration(float64(time.Microsecond) * math.Pow(step, float64(len(h.steps))))
}

// quick returns how many times are soon enough, in percent.
func (h *histogram) quick() float64 { return 100 * float64(h.soon) / float64(max(1, h.n)) }
