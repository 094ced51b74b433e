package cpuid

// caches reads CPUID leaf 4, or, where a processor has nothing there as those of AMD, leaf 8000001Dh, which has the same form.
func caches() Caches {
	const deterministic, topology = 4, 0x8000001d
	for _, leaf := range []uint32{deterministic, topology} {
		if most, _, _ := describe(leaf&(1<<31), 0); most < leaf {
			continue
		}
		if c := cachesOf(func(sub uint32) (a, b, c uint32) { return describe(leaf, sub) }); c != (Caches{}) {
			return c
		}
	}
	return Caches{}
}

// cachesOf reads the descriptions of caches until there is none: EAX has the kind and the level, EBX ways, partitions and line
// size, ECX the number of sets, each less one.
func cachesOf(at func(sub uint32) (a, b, c uint32)) (list Caches) {
	const data, unified = 1, 3
	for sub := range uint32(16) {
		a, b, c := at(sub)
		kind, level := a&31, int(a>>5&7)
		if kind == 0 {
			break
		}
		if kind != data && kind != unified || level < 1 || level > len(list) {
			continue
		}
		ways, partitions, line := int(b>>22)+1, int(b>>12&1023)+1, int(b&4095)+1
		list[level-1] = Cache{Bytes: ways * partitions * line * (int(c) + 1)}
	}
	return list
}

// describe returns EAX, EBX and ECX of a part of a CPUID leaf.
//
//go:noescape
func describe(leaf, sub uint32) (a, b, c uint32)
