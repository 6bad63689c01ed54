// Command limitcheck starts a broker with few file descriptors, or little memory, and looks whether it refuses what
// does not fit, goes on with what does, and recovers. .ci/faults/limits runs it.
//
//	limitcheck -binary MILLSTREAM -dir DIR [-port P] descriptors|memory
//
// descriptors: 96 of them. Connections are opened until there are no more: those that are open go on producing and
// fetching, the log says that none can be accepted, topics that need files are made or refused with an error, and when
// connections are closed all works.
//
// memory: GOMEMLIMIT=64MiB and, where cgroups are there, a hard limit of 100 MiB. 200 connections produce nearly 1 MiB and
// fetch 50 MiB at once, half of them without reading the answer at once. The broker lives, what it
// acknowledged is there, and its peak of resident memory is told.
package main
