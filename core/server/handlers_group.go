package server

// groupHandlers lists the APIs of groups and their offsets.
var groupHandlers = []handler{}
