//go:build amd64 || arm64

package dl

import "bytes"

// CheckELF looks at the content of a file.
func CheckELF(b []byte) error { return checkELF(bytes.NewReader(b), int64(len(b))) }
