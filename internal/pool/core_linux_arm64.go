package pool

const sysGetcpu = 168

// core returns the number of the processor that the calling thread runs on, or unknownCore.
func core() int32 { return systemCore() }

// confirm does nothing: core asks the system.
func confirm() {}
