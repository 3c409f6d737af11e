module moldau/conformance/sarama

go 1.24

require (
	github.com/IBM/sarama v1.60.1
	moldau/conformance/jobs v0.0.0
)

replace moldau/conformance/jobs => ../jobs
