package server

// Server accepts Kafka clients and answers them.
type Server struct{}
