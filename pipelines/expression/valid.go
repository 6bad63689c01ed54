package expression

// Valid reports what is wrong with a JSON text as records hold it, nil if nothing is. It allocates
// nothing for a valid text. The error is a *DecodeError.
func Valid(data []byte) error {
	var s scanner
	return s.run(data, nil, 0, true)
}
