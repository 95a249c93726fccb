module tandem/apistub

go 1.26
