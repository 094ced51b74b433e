package repository

// OnThread is onThread.
var OnThread = onThread

// Rank is Batching.rank.
var Rank = (*Batching).rank

// Waiting returns how many requests wait for a run.
func (v *Version) Waiting() int {
	if v.batcher != nil {
		return v.batcher.Stats().Waiting
	}
	return int(v.gate.length.Load())
}
