package pool

// Sleeping returns how many workers are parked.
func Sleeping() int32 { return shared.sleeping.Load() }
