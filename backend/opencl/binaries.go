package opencl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// binaries keeps what programs were compiled to in a folder: a file for each text, device, driver and set of options. Files are
// written under another name and renamed, so that each is whole or absent; one that is not what it says is ignored and replaced.
// nil keeps nothing.
type binaries struct{ dir string }

const (
	mostBinary = 64 << 20
	magic      = "carve opencl 1\n"
)

// openBinaries returns the cache that the option names: a folder, "off", or the folder carve/opencl of the user's caches for
// "". There, where no folder can be made, nothing is kept.
func openBinaries(option string) (*binaries, error) {
	dir := option
	switch option {
	case "off":
		return nil, nil
	case "":
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, nil
		}
		dir = filepath.Join(user, "carve", "opencl")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		if option == "" {
			return nil, nil
		}
		return nil, err
	}
	return &binaries{dir}, nil
}

// ownCache reports whether the driver keeps compiled kernels on disk itself, and makes more of them where it is asked for its binary.
func (f *facts) ownCache() bool { return strings.HasPrefix(f.platform, "Portable Computing Language") }

func (b *binaries) path(p *program) string {
	f := &p.d.facts
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%q %q %q %q %q %q", p.key, buildOptions, f.platform, f.platformVersion, f.name, f.version, f.driver))
	return filepath.Join(b.dir, hex.EncodeToString(sum[:])+".bin")
}

// get returns what a program was compiled to, nil where that is not known.
func (b *binaries) get(p *program) []byte {
	if b == nil || p.d.facts.ownCache() {
		return nil
	}
	info, err := os.Lstat(b.path(p))
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostBinary+1<<10 {
		return nil
	}
	data, err := os.ReadFile(b.path(p))
	if err != nil {
		return nil
	}
	return decodeBinary(data)
}

// decodeBinary returns the content of a file of the cache, nil where it is not whole.
func decodeBinary(data []byte) []byte {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(rest) <= sha256.Size {
		return nil
	}
	content := rest[sha256.Size:]
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil
	}
	return content
}

func encodeBinary(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append(append([]byte(magic), sum[:]...), content...)
}

// put keeps what a program was compiled to. Where that fails it is compiled again the next time.
func (b *binaries) put(p *program, c *call) {
	if b == nil || p.d.facts.ownCache() {
		return
	}
	content, err := p.binary(c)
	if err != nil || len(content) == 0 {
		return
	}
	f, err := os.CreateTemp(b.dir, "*.part")
	if err != nil {
		return
	}
	_, err = f.Write(encodeBinary(content))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), b.path(p))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // nobody else knows its name
	}
}
