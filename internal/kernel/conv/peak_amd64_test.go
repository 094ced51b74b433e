package conv

func peaks() (p512, p256 func(int)) { return peak512, peak256 }

// UseWholeVectors makes plans as on a processor that does not split 512-bit vectors, until restore is called.
func UseWholeVectors() (restore func()) {
	old := splitsVectors
	splitsVectors = false
	return func() { splitsVectors = old }
}
