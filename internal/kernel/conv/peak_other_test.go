//go:build !amd64

package conv

func peaks() (p512, p256 func(int)) { return nil, nil }

// UseWholeVectors does nothing: there is only one kind of vectors.
func UseWholeVectors() (restore func()) { return func() {} }
