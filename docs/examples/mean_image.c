/* The mean of some images of a stack at a server.
 *
 * usage: mean_image URL-OR-FILE DATASET FIRST STEP
 *
 * The images FIRST, FIRST + STEP, … of a three-dimensional dataset. Which ones is known beforehand, so the driver is
 * told: they come side by side, and not one after another.
 * Build: cc mean_image.c -o mean_image $(pkg-config --cflags --libs xhdf5 hdf5) */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <xhdf5.h>

/* Selects image |i| of |space|, or all from there on in steps. */
static herr_t select_images(hid_t space, const hsize_t dims[3], hsize_t i, hsize_t step, hsize_t n)
{
    hsize_t start[3] = {i, 0, 0}, stride[3] = {step, 1, 1}, count[3] = {n, 1, 1}, block[3] = {1, dims[1], dims[2]};
    return H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block);
}

static int mean(hid_t set, hsize_t first, hsize_t step)
{
    hsize_t dims[3] = {0, 0, 0};
    hid_t space = H5Dget_space(set);
    if (H5Sget_simple_extent_ndims(space) != 3 || H5Sget_simple_extent_dims(space, dims, NULL) < 0 ||
        first >= dims[0] || step == 0)
        return fprintf(stderr, "mean_image: not a stack of images, or it has fewer\n"), 1;
    hsize_t pixels = dims[1] * dims[2], n = (dims[0] - first + step - 1) / step;
    hid_t memory = H5Screate_simple(1, &pixels, NULL);
    double *image = malloc(pixels * sizeof *image), sum = 0;
    int rc = !image || select_images(space, dims, first, step, n) < 0 || H5Dxhdf5_prefetch(set, space) < 0;
    for (hsize_t i = first; !rc && i < dims[0]; i += step) {
        rc = select_images(space, dims, i, 1, 1) < 0 ||
             H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, image) < 0;
        for (hsize_t k = 0; !rc && k < pixels; k++)
            sum += image[k];
    }
    if (!rc)
        printf("%llu images, mean %.6f\n", (unsigned long long)n, sum / (double)(n * pixels));
    free(image);
    H5Sclose(memory);
    H5Sclose(space);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "usage: mean_image URL-OR-FILE DATASET FIRST STEP\n"), 2;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_fapl_xhdf5(fapl, NULL) < 0) /* NULL: the options come from the environment, or are the defaults */
        return 1;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    hid_t set = file < 0 ? H5I_INVALID_HID : H5Dopen2(file, argv[2], H5P_DEFAULT);
    int rc = set < 0 || mean(set, strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10)); /* HDF5 has printed why */
    if (set >= 0)
        H5Dclose(set);
    if (file >= 0)
        H5Fclose(file);
    H5Pclose(fapl);
    return rc;
}
