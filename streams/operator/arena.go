package operator

// Arena gives small byte slices their memory in large pieces and never hands out a byte twice, so
// that what a step makes can be kept for as long as anybody likes. The zero value is ready; it is
// for one goroutine.
type Arena struct{ piece []byte }

const (
	// arenaPiece is large enough that a key or a result costs no allocation of its own, and small
	// enough that one of them kept alive does not hold much.
	arenaPiece = 32 << 10
	// arenaLeast is the room at which a new piece is begun for a slice whose size is not known.
	arenaLeast = 256
)

// Make returns n bytes of any content.
func (a *Arena) Make(n int) []byte {
	if n > cap(a.piece)-len(a.piece) {
		a.piece = make([]byte, 0, max(n, arenaPiece))
	}
	at := len(a.piece)
	a.piece = a.piece[:at+n]
	return a.piece[at : at+n : at+n]
}

// Start returns an empty slice to append to. Nothing else may be taken from the arena until End.
func (a *Arena) Start() []byte {
	if cap(a.piece)-len(a.piece) < arenaLeast {
		a.piece = make([]byte, 0, arenaPiece)
	}
	return a.piece[len(a.piece):]
}

// End keeps b, which was appended to the slice of Start. If it outgrew the piece, it has memory of
// its own already.
func (a *Arena) End(b []byte) []byte {
	if len(b) <= cap(a.piece)-len(a.piece) {
		a.piece = a.piece[:len(a.piece)+len(b)]
	}
	return b[:len(b):len(b)]
}

// Copy returns a copy of b.
func (a *Arena) Copy(b []byte) []byte {
	c := a.Make(len(b))
	copy(c, b)
	return c
}
