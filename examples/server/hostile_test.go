package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// zerosWithoutEnd is a reader of a JSON array that never ends.
type zerosWithoutEnd struct{ read atomic.Int64 }

func (z *zerosWithoutEnd) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "0,"[i&1]
	}
	z.read.Add(int64(len(p)))
	return len(p) &^ 1, nil
}

var _ = Describe("hostile clients", func() {
	It("get a typed error for bodies without end, announced or not, compressed or not", func() {
		l, _ := started("-models", models(), "-max-request-bytes", "1000000")
		at := "http://" + l.Addr("http").String() + "/v2/models/echo_fp32/infer"
		head := `{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[`
		endless := &zerosWithoutEnd{}
		a, err := http.Post(at, "application/json", io.MultiReader(strings.NewReader(head), io.LimitReader(endless, 10<<30)))
		if err == nil { // a client may also see only that the connection ends
			Expect(a.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
			Expect(a.Body.Close()).To(Succeed())
		}
		Expect(endless.read.Load()).To(BeNumerically("<", 64<<20), "the server does not read on")

		var bomb bytes.Buffer
		z := gzip.NewWriter(&bomb)
		_, err = io.Copy(z, io.MultiReader(strings.NewReader(head), io.LimitReader(&zerosWithoutEnd{}, 50<<20)))
		Expect(err).NotTo(HaveOccurred())
		Expect(z.Close()).To(Succeed())
		r, err := http.NewRequest(http.MethodPost, at, &bomb)
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Content-Encoding", "gzip")
		a, err = http.DefaultClient.Do(r)
		Expect(err).NotTo(HaveOccurred())
		Expect(a.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
		Expect(a.Body.Close()).To(Succeed())

		conn, err := net.Dial("tcp", l.Addr("http").String())
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v2/models/echo_fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		Expect(line).To(ContainSubstring("413"))
		status, _ := ask(l, http.MethodGet, "/v2/health/ready", "")
		Expect(status).To(Equal(200))
	})

	It("cannot hold a request open by sending it slowly", func() {
		l, _ := started("-models", "../quickstart", "-body-timeout", "300ms")
		conn, err := net.Dial("tcp", l.Addr("http").String())
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(conn.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed()) // the body itself would take hours
		fmt.Fprintf(conn, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
		go func() {
			for {
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}()
		line, err := bufio.NewReader(conn).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		Expect(line).To(ContainSubstring("400"))
	})

	It("sending noise to any port leave the server as it was", func() {
		l, _ := started("-models", "../quickstart")
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 60 {
			conn, err := net.Dial("tcp", l.Addr([]string{"http", "grpc", "metrics"}[i%3]).String())
			Expect(err).NotTo(HaveOccurred())
			noise := make([]byte, r.IntN(4000))
			for k := range noise {
				noise[k] = byte(r.Uint32())
			}
			if i%2 == 0 {
				noise = append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise...)
			}
			_, _ = conn.Write(noise) // the server may have closed it
			Expect(conn.Close()).To(Succeed())
		}
		status, _ := ask(l, http.MethodGet, "/v2/health/ready", "")
		Expect(status).To(Equal(200))
	})

	It("loading and unloading again and again leaves nothing behind", func() {
		l, _ := started("-models", "../quickstart", "-model-control", "explicit")
		round := func() {
			load(l, "digits")
			status, body := ask(l, http.MethodPost, "/v2/repository/models/digits/unload", "{}")
			Expect(status).To(Equal(200), body)
		}
		for range 20 {
			round()
		}
		before := runtime.NumGoroutine()
		for range 100 {
			round()
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<", before+50), "less than one for two rounds: connections have some of their own")
		_, body := ask(l, http.MethodPost, "/v2/repository/index", `{"ready":true}`)
		Expect(body).To(Equal("[]"))
	})
})

var _ = Describe("the command", func() {
	It("says what is wrong with its flags and folders", func(ctx SpecContext) {
		file := filepath.Join(GinkgoT().TempDir(), "f")
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
		for _, row := range [][]string{
			{"-models is needed"}, {"none of none, poll", "-models", ".", "-model-control", "x"}, {"no such file", "-models", "/nothing/here"}, {"no folder", "-models", file},
			{"unexpected argument", "-models", ".", "more"}, {"certificate and a key", "-models", GinkgoT().TempDir(), "-tls-cert", file},
		} {
			Expect(run(ctx, append([]string{"-http", "127.0.0.1:0", "-grpc", "", "-metrics", ""}, row[1:]...), io.Discard, nil)).To(MatchError(ContainSubstring(row[0])))
		}
	})

	It("exposes metrics by carve's names and by Triton's", func() {
		l, _ := started("-models", "../quickstart")
		status, body := ask(l, http.MethodPost, "/v2/models/digits/infer", `{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","data":[`+strings.Repeat("0,", 63)+`0]}]}`)
		Expect(status).To(Equal(200), body)
		a, err := http.Get("http://" + l.Addr("metrics").String() + "/metrics")
		Expect(err).NotTo(HaveOccurred())
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		Expect(err).NotTo(HaveOccurred())
		for _, line := range []string{
			`carve_requests_total{model="digits",result="ok",version="1"} 1`, `nv_inference_request_success{model="digits",version="1"} 1`,
			`carve_request_seconds_count{model="digits",version="1"} 1`, `nv_inference_count{model="digits",version="1"} 1`, "carve_ready 1", "carve_model_bytes",
		} {
			Expect(string(text)).To(ContainSubstring(line))
		}
	})
})
