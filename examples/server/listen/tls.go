package listen

import (
	"crypto/tls"
	"errors"
	"os"
	"sync"
	"time"
)

// certificates returns a configuration that reads a certificate again when its files change; nil for no files.
func certificates(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, errors.New("TLS needs a certificate and a key")
	}
	p := &pair{cert: cert, key: key}
	if _, err := p.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: p.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// pair is a certificate and its key.
type pair struct {
	cert, key string

	mu      sync.Mutex
	looked  time.Time
	changed [2]time.Time
	current *tls.Certificate
}

// get returns the certificate; files that no longer fit leave the last one that did.
func (p *pair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && time.Since(p.looked) < 10*time.Second {
		return p.current, nil
	}
	p.looked = time.Now()
	var changed [2]time.Time
	for i, name := range []string{p.cert, p.key} {
		if info, err := os.Stat(name); err == nil {
			changed[i] = info.ModTime()
		}
	}
	if p.current != nil && changed == p.changed {
		return p.current, nil
	}
	next, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		if p.current != nil {
			return p.current, nil
		}
		return nil, err
	}
	p.current, p.changed = &next, changed
	return p.current, nil
}
