package rest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/serve"
)

// errSlow is wrapped by errors about bodies that take too long to arrive.
var errSlow = errors.New("the body does not arrive")

// body reads a request's body, decompressed. What it reads is counted by the request's admission before it is allocated.
type body struct {
	r      io.Reader
	closer io.Closer // of a decompressor
	a      *serve.Admission
	w      *http.ResponseController
	length int64 // bytes that are left, -1 where that is not known
	mixed  bool  // tensors in binary follow the JSON
}

// open begins to read a body.
func (h *handler) open(w http.ResponseWriter, r *http.Request, a *serve.Admission) (*body, error) {
	limit := h.s.MaxRequestBytes()
	if r.ContentLength > limit {
		return nil, oip.Errorf(oip.TooLarge, "the body has %d bytes, at most %d are taken", r.ContentLength, limit)
	}
	within := h.o.BodyTimeout + time.Duration(max(r.ContentLength, 0)>>20)*time.Second
	b := &body{r: r.Body, a: a, w: http.NewResponseController(w), length: r.ContentLength}
	_ = b.w.SetReadDeadline(time.Now().Add(within)) // writers that cannot have other means against slow clients
	var err error
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return b, nil
	case "gzip":
		var z *gzip.Reader
		z, err = gzip.NewReader(r.Body)
		b.r, b.closer = z, z
	case "deflate":
		b.closer, err = zlib.NewReader(r.Body)
		if err == nil {
			b.r = b.closer.(io.Reader)
		}
	default:
		return nil, oip.Errorf(oip.InvalidArgument, "Content-Encoding %.40q is none of gzip and deflate", encoding)
	}
	b.length = -1
	if err != nil {
		return nil, readError(err)
	}
	return b, nil
}

// close ends the reading. The connection is watched without a deadline from then on, for the client's going away.
func (b *body) close() {
	_ = b.w.SetReadDeadline(time.Time{})
	if b.closer != nil {
		_ = b.closer.Close()
	}
}

// full fills p, whose bytes have been reserved.
func (b *body) full(p []byte) error {
	n, err := io.ReadFull(b.r, p)
	if b.length >= 0 {
		b.length -= int64(n)
	}
	if err != nil {
		return readError(err)
	}
	return nil
}

// take reads n bytes.
func (b *body) take(n int64) ([]byte, error) {
	if b.length >= 0 && n > b.length {
		return nil, oip.Errorf(oip.InvalidArgument, "%d bytes are announced, the body has %d left", n, b.length)
	}
	const chunk = 1 << 20
	var out []byte
	for int64(len(out)) < n { // what is announced is not believed before it is there
		part := min(n-int64(len(out)), max(chunk, int64(len(out))))
		if err := b.a.Reserve(part); err != nil {
			return nil, err
		}
		at := len(out)
		if out == nil {
			out = make([]byte, part)
		} else {
			out = append(out, make([]byte, part)...)
		}
		if err := b.full(out[at:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rest reads all that is left.
func (b *body) rest() ([]byte, error) {
	if b.length >= 0 {
		return b.take(b.length)
	}
	var out bytes.Buffer
	part := make([]byte, 32<<10)
	for {
		n, err := b.r.Read(part)
		if n > 0 {
			if err := b.a.Reserve(int64(n)); err != nil {
				return nil, err
			}
			out.Write(part[:n])
		}
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, readError(err)
		}
	}
}

// end reports an error where anything is left.
func (b *body) end() error {
	if b.length == 0 {
		return nil
	}
	var one [1]byte
	switch n, err := io.ReadFull(b.r, one[:]); {
	case n > 0:
		return oip.Errorf(oip.InvalidArgument, "unexpected additional input data for model: bytes follow the last input")
	case !errors.Is(err, io.EOF):
		return readError(err)
	}
	return nil
}

// readError returns an error of reading a body in the protocol's words.
func readError(err error) error {
	var timeout net.Error
	var own *oip.Error
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &oip.Error{Code: oip.InvalidArgument, Message: "the body has not arrived in time", Err: errSlow}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return oip.Errorf(oip.InvalidArgument, "the body ends before all that is announced")
	}
	return oip.Errorf(oip.InvalidArgument, "the body cannot be read: %w", err)
}
