// Package ptx has the kernels of gpukernel.Prebuilt as PTX, NVIDIA's portable assembly, which drivers compile for the processor that they
// find: for devices of CUDA where the run-time compiler is missing. The texts are generated from the same source as everything else that
// package gpukernel writes, and a spec compares them with what the compiler makes of it.
package ptx

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"slices"
	"sync"
)

//go:generate go run ./write -dir .

//go:embed compute_*.ptx.gz
var files embed.FS

// Architectures returns the virtual architectures that there are texts for, ascending: 75 for compute capability 7.5. A text serves
// processors of its capability and later ones.
func Architectures() []int { return []int{75, 80} }

// Driver is the oldest version of CUDA whose driver reads the texts, 11080 for 11.8.
const Driver = 11080

// File returns the name of the file for an architecture.
func File(architecture int) string { return fmt.Sprintf("compute_%d.ptx.gz", architecture) }

// Text returns the text of a kernel for a compute capability, 86 for 8.6, which ends with a zero byte, as drivers want it; ok is false
// where the capability is older than all architectures, or there is no kernel of that name.
func Text(capability int, kernel string) (text []byte, ok bool) {
	for _, a := range slices.Backward(Architectures()) {
		if a > capability {
			continue
		}
		for t := range bytes.SplitAfterSeq(unpacked[a](), []byte{0}) {
			if bytes.Contains(t, []byte(".entry "+kernel+"(")) {
				return t, true
			}
		}
		break
	}
	return nil, false
}

// Join makes one file's content of the kernels' texts.
func Join(texts [][]byte) []byte {
	var all []byte
	for _, t := range texts {
		all = append(append(all, t...), 0)
	}
	return all
}

// All returns the texts of all kernels for an architecture, as Join has put them together.
func All(architecture int) []byte { return slices.Clone(unpacked[architecture]()) }

var unpacked = func() map[int]func() []byte {
	m := map[int]func() []byte{}
	for _, a := range Architectures() {
		m[a] = sync.OnceValue(func() []byte { return read(a) })
	}
	return m
}()

// Digest identifies the kernels' source, with what they have in common with others.
func Digest(source string) string {
	return fmt.Sprintf("source %x", sha256.Sum256([]byte(source)))
}

// Made returns the Digest of what an architecture's texts were made from.
func Made(architecture int) string {
	return open(architecture).Comment
}

func open(architecture int) *gzip.Reader {
	packed, err := files.ReadFile(File(architecture))
	if err != nil {
		panic(err) // a name of this package's
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err)
	}
	return z
}

func read(architecture int) []byte {
	text, err := io.ReadAll(open(architecture))
	if err != nil {
		panic(err)
	}
	return text
}
