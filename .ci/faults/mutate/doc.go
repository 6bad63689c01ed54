// Command mutate breaks one rule of core, of streams or of pipelines at a time and runs the tests
// that have to notice. .ci/faults/mutants runs it. The files stay as they are: the compiler is given changed copies (go test -overlay).
//
//	mutate [-run REGEXP] [-list] [-done FILE] [-most N]
//
// A mutant that survives is a rule without a test; one that does not run (its text is not found any more, or it does not
// compile) has to be written anew. -list only looks for the texts. With -done a run that
// was stopped goes on where it was: FILE has a line for each mutant that was killed, and takes no line for the others.
package main
