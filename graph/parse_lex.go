package graph

import (
	"fmt"
	"strconv"
	"strings"
)

// lexer reads a text from its start to its end. Its methods panic with a *ParseError, which recovered turns into a result.
type lexer struct {
	text string
	pos  int
}

// failure is what fail panics with, so that recovered lets other panics pass.
type failure struct{ err *ParseError }

func (l *lexer) fail(format string, args ...any) {
	l.failWith(fmt.Errorf("%w: %s", ErrSyntax, fmt.Sprintf(format, args...)))
}

func (l *lexer) failWith(err error) {
	before := l.text[:l.pos]
	panic(failure{&ParseError{
		Line: 1 + strings.Count(before, "\n"),
		Col:  l.pos - strings.LastIndexByte(before, '\n'),
		Err:  err,
	}})
}

// recovered is deferred by entry points: it stores the error of a failure.
func (*lexer) recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// peek returns the next byte, 0 at the end.
func (l *lexer) peek() byte {
	if l.pos < len(l.text) {
		return l.text[l.pos]
	}
	return 0
}

// blank skips spaces and tabs.
func (l *lexer) blank() {
	for l.pos < len(l.text) && (l.text[l.pos] == ' ' || l.text[l.pos] == '\t') {
		l.pos++
	}
}

// space skips blanks, line ends and comments from // to the end of the line.
func (l *lexer) space() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			l.pos++
		case c == '/' && strings.HasPrefix(l.text[l.pos:], "//"):
			if i := strings.IndexByte(l.text[l.pos:], '\n'); i >= 0 {
				l.pos += i
			} else {
				l.pos = len(l.text)
			}
		default:
			return
		}
	}
}

// accept skips s where it comes next.
func (l *lexer) accept(s string) bool {
	if strings.HasPrefix(l.text[l.pos:], s) {
		l.pos += len(s)
		return true
	}
	return false
}

func (l *lexer) expect(s string) {
	if !l.accept(s) {
		l.fail("expected %q", s)
	}
}

// ahead returns the word that comes next, "" where none does.
func (l *lexer) ahead() string {
	i := l.pos
	for i < len(l.text) && isOpByte(l.text[i]) {
		i++
	}
	return l.text[l.pos:i]
}

func (l *lexer) keyword(s string) {
	if l.ahead() != s {
		l.fail("expected %q", s)
	}
	l.pos += len(s)
}

// word reads a word or a quoted string.
func (l *lexer) word() string {
	if l.peek() == '"' {
		return l.quoted()
	}
	i := l.pos
	for l.pos < len(l.text) && isWordByte(l.text[l.pos]) {
		l.pos++
	}
	if i == l.pos {
		l.fail("expected a name")
	}
	return l.text[i:l.pos]
}

// opWord reads name or domain of an operator.
func (l *lexer) opWord() string {
	if l.peek() == '"' {
		return l.quoted()
	}
	w := l.ahead()
	if w == "" {
		l.fail("expected an operator")
	}
	l.pos += len(w)
	return w
}

// quoted reads a string in double quotes, with the escapes of Go.
func (l *lexer) quoted() string {
	q, err := strconv.QuotedPrefix(l.text[l.pos:])
	if err != nil || q[0] != '"' {
		l.fail("expected a string in quotes")
	}
	s, err := strconv.Unquote(q)
	if err != nil {
		l.fail("bad string: %v", err)
	}
	l.pos += len(q)
	return s
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number returns the text of a number: digits, letters, signs and dots as they come. The caller converts it.
func (l *lexer) number() string {
	i := l.pos
	for l.pos < len(l.text) {
		c := l.text[l.pos]
		exponent := l.pos > i && (l.text[l.pos-1] == 'e' || l.text[l.pos-1] == 'E')
		if isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '.' || (c == '-' || c == '+') && (l.pos == i || exponent) {
			l.pos++
			continue
		}
		break
	}
	return l.text[i:l.pos]
}

func (l *lexer) integer() int64 {
	start := l.pos
	if c := l.peek(); c == '-' || c == '+' {
		l.pos++
	}
	for isDigit(l.peek()) {
		l.pos++
	}
	n, err := strconv.ParseInt(l.text[start:l.pos], 10, 64)
	if err != nil {
		l.pos = start
		l.fail("expected an integer")
	}
	return n
}
