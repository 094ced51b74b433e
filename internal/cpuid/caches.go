package cpuid

// Cache is a cache that holds data.
type Cache struct {
	Bytes int // its size
}

// Caches are a core's data caches by level, first to third, those that it shares with others included. A level of which nothing is
// known, or that there is not, is zero.
type Caches [3]Cache

// HostCaches returns the caches of this processor, as it or the system describes them. It does not change while the process runs.
func HostCaches() Caches { return hostCaches }

var hostCaches = caches()
