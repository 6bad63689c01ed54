// Command mutate breaks one safety rule of core at a time and runs the tests that have to notice. .ci/faults/mutants
// runs it. The files stay as they are: the compiler is given changed copies (go test -overlay).
//
//	mutate [-run REGEXP] [-list]
//
// A mutant that survives is a rule without a test; one that does not run (its text is not found any more, or it does not
// compile) has to be written anew. -list only looks for the texts.
package main
